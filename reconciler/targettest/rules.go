package targettest

// rule is a promise of targets. It has a check for each row, or one for all.
type rule[Obj any] struct {
	name  string
	row   func(*session[Obj], Obj)
	all   func(*session[Obj])
	lacks string // the field of the contract that is missing for it
}

// rules returns all rules, those first that others build on. The comment of
// [reconciler.Target] has the same list, with a word on each.
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
		{name: "update brings a row about and says so", row: updateChanges[Obj]},
		{name: "delete removes it", row: deleteRemoves[Obj]},
		{name: "deleting again succeeds", row: deleteAgain[Obj]},
		{name: "update again changes nothing", row: updateAgain[Obj]},
		{name: "init may be repeated", all: initAgain[Obj]},
		{name: "observe yields what is there once", all: observeAgrees[Obj]},
		{name: "observe may be left early", all: observeLeftEarly[Obj]},
		{name: "what observe yields can be deleted", all: deleteObserved[Obj]},
		{name: "diff writes nothing", row: diffWritesNothing[Obj]},
		{name: "diff says what update would change", row: diffAgrees[Obj]},
		{name: "delete removes what an older row made", row: deleteNewer[Obj], lacks: variants},
		{name: "a changed row is brought about", row: everyChange[Obj], lacks: variants},
		{name: "prune removes what is not desired", all: prune[Obj]},
		{name: "an ended context stops operations", row: endedContext[Obj]},
		{name: "an ended context stops prune", all: endedPrune[Obj]},
		{name: "observe that is interrupted says so", all: observeInterrupted[Obj]},
		{name: "an interrupted operation can be repeated", row: interrupted[Obj]},
		{name: "the end of a context is no terminal error", row: endIsNotTerminal[Obj]},
		{name: "a new process finds what the last one made", all: newProcess[Obj]},
		{name: "an interrupted init can be repeated", all: initInterrupted[Obj]},
		{name: "an interrupted prune can be repeated", all: pruneInterrupted[Obj]},
		{name: "a crash inside an operation loses nothing", row: crashed[Obj]},
		{name: "what is removed behind its back is made again", row: removed[Obj], lacks: remove},
		{name: "what is changed behind its back is repaired", row: disturbed[Obj], lacks: lacks("Disturb", k.Disturb != nil)},
		{name: "what is removed during an operation is made by the next", row: removedMeanwhile[Obj], lacks: remove},
		{name: "different keys do not disturb each other", all: together[Obj]},
		{name: "what others made stays and is not observed", all: foreign[Obj], lacks: lacks("Foreign", k.Foreign != nil)},
		{name: "a row that cannot be is refused for good", all: refused[Obj], lacks: invalid},
		{name: "a batch brings each of its rows about", all: batchUpdates[Obj]},
		{name: "a batch of deletes removes each of its rows", all: batchDeletes[Obj]},
		{name: "an ended context stops a batch", all: batchEnded[Obj]},
		{name: "an interrupted batch can be repeated", all: batchInterrupted[Obj]},
		{name: "a crash inside a batch loses nothing", all: batchCrashed[Obj]},
		{name: "a batch does not keep its slice", all: batchSlice[Obj]},
		{name: "a row that cannot be fails alone in its batch", all: batchRefusal[Obj], lacks: invalid},
		{name: "a batch of diffs says what diff says of each row", all: batchDiffs[Obj]},
	}
}
