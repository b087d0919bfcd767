// Package cli makes cobra commands of what the cells of a hive contribute. They ask the running hive over its socket.
//
// Anyone's binary can have them: Mount adds them to a root command, Execute runs it and says the exit code. Commands write to
// OutOrStdout; an error is one line on standard error. A command that finds something unhealthy ends with an *ExitError, whose
// code is 1.
package cli
