// Package cli makes cobra commands of what the cells of a hive contribute. They ask the running hive over its socket.
//
// Anyone's binary can have them: Mount adds them to a root command, or to a command below one, Execute runs it and says the
// exit code. Commands write to OutOrStdout; an error goes to standard error, a line for each that there is, and the exit code
// is 1. A command that finds something unhealthy ends with an *ExitError, whose code is 1 as well. Tables, status and errors
// have spaces for what could disturb a terminal.
package cli
