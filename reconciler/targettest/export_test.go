package targettest

// RuleNames returns the names of all rules.
func RuleNames() []string {
	var names []string
	for _, r := range (&kit[int]{}).rules() {
		names = append(names, r.name)
	}
	return names
}

// Prepare returns what is wrong with a contract.
func Prepare[Obj any](c Contract[Obj]) error { return (&kit[Obj]{c}).prepare() }
