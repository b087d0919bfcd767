package file

import "testing"

const (
	aTaken = `a.yaml:2:14: field "destination": route "10.1.0.0/16" is also declared at b.yaml:2:14; neither takes effect`
	bTaken = `b.yaml:2:14: field "destination": route "10.1.0.0/16" is also declared at a.yaml:2:14; neither takes effect`
)

func TestDuplicateLeavesTheRowInForceAndIsTakenOverWithoutADelete(t *testing.T) {
	bubble(t, map[string]string{"b.yaml": routeTo(netA, "old")}, func(t *testing.T, h *harness) {
		h.settle()
		h.wantChanges("+" + netA)
		h.log.Reset()

		h.write("a.yaml", documents(routeTo(netA, "new"), routeTo(netB, "new")))
		h.settle()
		h.wantRoutes(netA + " old")
		h.wantDocuments("a.yaml duplicate 2/0: "+aTaken, "b.yaml duplicate 1/1: "+bTaken)
		h.wantState(true, aTaken)
		h.wantLog(
			`level=ERROR msg="Document refused" file=a.yaml line=2 column=14 field=destination error="route \"10.1.0.0/16\" is also declared at b.yaml:2:14; neither takes effect"`,
			`level=ERROR msg="Document refused" file=b.yaml line=2 column=14 field=destination error="route \"10.1.0.0/16\" is also declared at a.yaml:2:14; neither takes effect"`,
		)

		// Also when the one that holds it is read again, changed or not.
		h.settle()
		h.write("b.yaml", "# comment\n"+routeTo(netA, "old"))
		h.settle()
		h.write("b.yaml", routeTo(netA, "newer"))
		h.settle()
		h.wantRoutes(netA + " old")
		h.wantChanges()

		h.remove("b.yaml")
		h.settle()
		h.wantRoutes(netA+" new", netB+" new")
		h.wantChanges("+"+netA, "+"+netB)
		h.wantDocuments("a.yaml ok 2/2")
		h.wantState(true, "")
	})
}

func TestWhenTheNewOneOfADuplicateGoesTheHolderGoesOn(t *testing.T) {
	bubble(t, map[string]string{"b.yaml": routeTo(netA, "old")}, func(t *testing.T, h *harness) {
		h.settle()
		h.write("a.yaml", routeTo(netA, "new"))
		h.settle()
		h.write("b.yaml", routeTo(netA, "newer"))
		h.settle()
		h.wantChanges("+" + netA)
		h.remove("a.yaml")
		h.settle()
		h.wantRoutes(netA + " newer")
		h.wantChanges("+" + netA)
		h.wantDocuments("b.yaml ok 1/1")
	})
}

func TestOfADuplicateAtStartNeitherIsInForce(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "a"), "b.yaml": routeTo(netA, "b"), "c.yaml": routeTo(netC, "c")}, func(t *testing.T, h *harness) {
		h.settle()
		h.wantRoutes(netC + " c")
		h.wantDocuments("a.yaml duplicate 1/0: "+aTaken, "b.yaml duplicate 1/0: "+bTaken, "c.yaml ok 1/1")
		h.wantState(true, aTaken+" (and of 1 more)")
		h.write("a.yaml", routeTo(netB, "a"))
		h.settle()
		h.wantRoutes(netA+" b", netB+" a", netC+" c")
		h.wantState(true, "")
	})
}

func TestDuplicateInOneFile(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "a")}, func(t *testing.T, h *harness) {
		h.settle()
		h.write("a.yaml", documents(routeTo(netA, "b"), routeTo(netA, "c")))
		h.settle()
		h.wantRoutes(netA + " a")
		h.write("a.yaml", routeTo(netA, "c"))
		h.settle()
		h.wantRoutes(netA + " c")
		h.wantChanges("+" + netA)
	})
}

func TestTheRowInForceStaysWhenItsFileGoesAndTwoOthersClaimIt(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "a"), "z.yaml": "kind: set\nname: rest\n"}, func(t *testing.T, h *harness) {
		h.settle()
		h.write("b.yaml", routeTo(netA, "b"))
		h.write("c.yaml", routeTo(netA, "c"))
		h.settle()
		h.remove("a.yaml")
		h.settle()
		h.wantRoutes(netA + " a")
		h.wantChanges("+" + netA)
		h.remove("b.yaml")
		h.settle()
		h.wantRoutes(netA + " c")
		h.wantChanges("+" + netA)
		h.remove("c.yaml")
		h.settle()
		h.wantRoutes()
	})
}

func TestAKeyMovesBetweenFiles(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "a"), "b.yaml": routeTo(netB, "b")}, func(t *testing.T, h *harness) {
		h.settle()
		h.log.Reset()
		h.wantChanges("+"+netA, "+"+netB)
		h.write("a.yaml", routeTo(netB, "a"))
		h.write("b.yaml", routeTo(netA, "b"))
		h.settle()
		h.wantRoutes(netA+" b", netB+" a")
		h.wantChanges("+"+netB, "+"+netA)
		h.wantLog(`level=INFO msg="Documents applied" files=2 rows=2`)

		// One after the other: refused in between.
		h.write("a.yaml", routeTo(netA, "a"))
		h.settle()
		h.wantRoutes(netA+" b", netB+" a")
		h.wantDocuments("a.yaml duplicate 1/1: "+aTaken, "b.yaml duplicate 1/1: "+bTaken)
		h.write("b.yaml", routeTo(netB, "b"))
		h.settle()
		h.wantRoutes(netA+" a", netB+" b")
		h.wantDocuments("a.yaml ok 1/1", "b.yaml ok 1/1")
	})
}

func TestARenamedFileIsNoDuplicate(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": documents(routeTo(netA, "a"), routeTo(netB, "a"))}, func(t *testing.T, h *harness) {
		h.settle()
		h.log.Reset()
		h.wantChanges("+"+netA, "+"+netB)
		h.write("b.yaml", documents(routeTo(netA, "b"), routeTo(netB, "a")))
		h.remove("a.yaml")
		h.look()
		h.wantRoutes(netA+" b", netB+" a")
		h.settle()
		h.wantChanges("+" + netA)
		h.wantDocuments("b.yaml ok 2/2")
		h.wantLog(`level=INFO msg="Documents applied" files=2 rows=2`)
	})
}

func TestAFileThatReturnsFindsItsKeyTaken(t *testing.T) {
	original := documents(routeTo(netA, "a"), routeTo(netB, "a"))
	bubble(t, map[string]string{"a.yaml": original}, func(t *testing.T, h *harness) {
		h.settle()
		h.remove("a.yaml")
		h.write("b.yaml", routeTo(netA, "b"))
		h.look()
		h.write("a.yaml", original)
		h.settle()
		h.wantRoutes(netA+" b", netB+" a")
		h.wantDocuments("a.yaml duplicate 2/1: "+aTaken, "b.yaml duplicate 1/1: "+bTaken)
		h.remove("b.yaml")
		h.settle()
		h.wantRoutes(netA+" a", netB+" a")
	})
}

func TestABadFileDefendsItsLastGoodVersion(t *testing.T) {
	bubble(t, map[string]string{"b.yaml": routeTo(netA, "old")}, func(t *testing.T, h *harness) {
		h.settle()
		h.write("b.yaml", badField)
		h.settle()
		h.write("a.yaml", routeTo(netA, "new"))
		h.settle()
		h.wantRoutes(netA + " old")
		h.wantDocuments("a.yaml duplicate 1/0: "+aTaken, "b.yaml error 1/1: b.yaml:"+badFieldE)
		h.wantState(true, aTaken)
		h.write("b.yaml", routeTo(netB, "b"))
		h.settle()
		h.wantRoutes(netA+" new", netB+" b")
		h.wantChanges("+"+netA, "+"+netB)
	})
}

func TestEmptyingTheHolderLetsTheOtherTakeOver(t *testing.T) {
	bubble(t, map[string]string{"b.yaml": routeTo(netA, "old")}, func(t *testing.T, h *harness) {
		h.settle()
		h.write("a.yaml", routeTo(netA, "new"))
		h.settle()
		h.write("b.yaml", "# empty\n")
		h.settle()
		h.wantRoutes(netA + " new")
		h.wantChanges("+" + netA)
		h.wantDocuments("a.yaml ok 1/1", "b.yaml ok 0/0")
	})
}
