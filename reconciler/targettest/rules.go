package targettest

// rule is a rule of the contract. It has a check for each row, or one for all rows together.
type rule[Obj any] struct {
	name  string
	row   func(*session[Obj], Obj)
	all   func(*session[Obj])
	lacks string // the field of the contract that it needs but that is not set
}

// rules returns all rules, ordered so that each builds on those before it. The comment of
// [reconciler.Target] has the same list, with an explanation of each.
func (k *kit[Obj]) rules() []rule[Obj] {
	type of = rule[Obj]
	lacks := func(field string, given bool) string {
		if given {
			return ""
		}
		return field
	}
	variants := lacks("Variants", len(k.Variants) > 0)
	remove := lacks("Remove", k.Remove != nil)
	invalid := lacks("Invalid", len(k.Invalid) > 0)
	return []of{
		{name: "deleting what is absent succeeds", row: deleteAbsent[Obj]},
		{name: "update applies a row and reports a change", row: updateChanges[Obj]},
		{name: "delete removes the object", row: deleteRemoves[Obj]},
		{name: "deleting again succeeds", row: deleteAgain[Obj]},
		{name: "update again changes nothing", row: updateAgain[Obj]},
		{name: "init may be repeated", all: initAgain[Obj]},
		{name: "observe yields each object once", all: observeAgrees[Obj]},
		{name: "observe may be stopped early", all: observeLeftEarly[Obj]},
		{name: "what observe yields can be deleted", all: deleteObserved[Obj]},
		{name: "diff writes nothing", row: diffWritesNothing[Obj]},
		{name: "diff reports what update would change", row: diffAgrees[Obj]},
		{name: "delete removes what an older row made", row: deleteNewer[Obj], lacks: variants},
		{name: "a changed row is applied", row: everyChange[Obj], lacks: variants},
		{name: "prune removes what is not desired", all: prune[Obj]},
		{name: "an ended context stops operations", row: endedContext[Obj]},
		{name: "an ended context stops prune", all: endedPrune[Obj]},
		{name: "an interrupted observe yields an error", all: observeInterrupted[Obj]},
		{name: "an interrupted operation can be repeated", row: interrupted[Obj]},
		{name: "the end of a context is not a terminal error", row: endIsNotTerminal[Obj]},
		{name: "a new process finds what the last one made", all: newProcess[Obj]},
		{name: "an interrupted init can be repeated", all: initInterrupted[Obj]},
		{name: "an interrupted prune can be repeated", all: pruneInterrupted[Obj]},
		{name: "a crash inside an operation loses nothing", row: crashed[Obj]},
		{name: "an object removed behind its back is made again", row: removed[Obj], lacks: remove},
		{name: "an object changed behind its back is repaired", row: disturbed[Obj], lacks: lacks("Disturb", k.Disturb != nil)},
		{name: "an object removed during an operation is made by the next", row: removedMeanwhile[Obj], lacks: remove},
		{name: "different keys do not disturb each other", all: together[Obj]},
		{name: "foreign objects stay and are not observed", all: foreign[Obj], lacks: lacks("Foreign", k.Foreign != nil)},
		{name: "an invalid row gets a terminal error", all: refused[Obj], lacks: invalid},
		{name: "a batch applies each of its rows", all: batchUpdates[Obj]},
		{name: "a batch of deletes removes each of its rows", all: batchDeletes[Obj]},
		{name: "an ended context stops a batch", all: batchEnded[Obj]},
		{name: "an interrupted batch can be repeated", all: batchInterrupted[Obj]},
		{name: "a crash inside a batch loses nothing", all: batchCrashed[Obj]},
		{name: "a batch does not keep its slice", all: batchSlice[Obj]},
		{name: "an invalid row fails alone in its batch", all: batchRefusal[Obj], lacks: invalid},
		{name: "a batch of diffs agrees with diff", all: batchDiffs[Obj]},
	}
}
