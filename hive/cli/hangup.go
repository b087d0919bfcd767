package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// TakeHangup keeps SIGHUP from ending a process with these arguments if they begin with the command `agent`: from then on, it
// finds an agent that is only beginning, and will read everything anyway. [Main] calls it; main functions that do much before, or
// do not call [Main], call it first. It changes nothing for other commands, which a hangup ends, nor if whoever started the
// process has SIGHUP ignored, as nohup does.
func TakeHangup(args []string) {
	if len(args) > 0 && args[0] == agentCommand && !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // never read: Hive.Run has a channel of its own
	}
}
