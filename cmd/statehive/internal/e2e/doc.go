// Package e2e tests the agent as a whole: the real program, on real kernel
// objects, through its command line and its metrics. It has tests only.
//
// The scripts in testdata/sandbox run an agent with --sandbox, as root and as an
// ordinary user; the commands of the command line run outside of it. Those in
// testdata/namespace run an agent without --sandbox in network namespaces of
// their own, which outlive it. Each script, and each test, has its own socket,
// state directory and port for metrics, so that all can run side by side.
//
// Besides the commands of testscript, scripts have $PROGRAM, the agent's executable, $TABLES, a
// program that changes nftables tables by hand, and these commands:
//
//	agent start [FLAG...]          start the agent on ./documents, and wait until it answers
//	agent stop                     stop it as an operator would; it must exit with code 0
//	agent reload                   make it read settings and documents again
//	agent kill                     kill it as the kernel would when memory is short
//	agent refused [FLAG...]        start one that must exit by itself, with code 1
//	[!] statehive ARG...           a command of the command line, as the user of the agent
//	[!] inside COMMAND...          a command in the agent's network namespace
//	[!] all-done                   print the status, and fail unless all rows are done and the agent is healthy
//	[!] metrics REGEXP...          print the lines of the metrics that match all REGEXP, in this order
//	within TIME succeeds COMMAND   repeat one of the four above until it succeeds
//	within TIME fails COMMAND      until it does not
//	within TIME shows REGEXP COMMAND   until it prints what matches
//	within TIME hides REGEXP COMMAND   until nothing that it prints matches
//	full-passes                    wait until each reconciler has done two more full passes
//	edit FILE OLD NEW              replace a text in a file atomically, by a rename
package e2e
