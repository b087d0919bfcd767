package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is for what has no deadline of its own in the requirements.
const patience = time.Minute

// atATime returns how many tests run side by side: they wait most of the time, unless the race detector makes all slow.
func atATime() int {
	if raceDetector {
		return 3
	}
	return 6
}

// programVariable tells where the program is. TestMain sets it.
const programVariable = "STATEHIVE_E2E_PROGRAM"

// tablesVariable tells where the program is that changes nftables tables.
const tablesVariable = "STATEHIVE_E2E_TABLES"

// TestMain builds the programs once. They are left where every user can run them.
func TestMain(m *testing.M) {
	syscall.Umask(0o022) // documents that others could write to are refused
	dir, err := os.MkdirTemp("", "statehive-e2e-")
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755),
			build(programVariable, filepath.Join(dir, "statehive"), "github.com/statehive/statehive/cmd/statehive"),
			build(tablesVariable, filepath.Join(dir, "tables"), "./testdata/tables"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atATime())); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
		}
		os.Exit(code)
	}))
}

// build builds a program, and sets the variable that tells where it is.
func build(variable, program, source string) error {
	args := []string{"build", "-o", program}
	if raceDetector {
		args = append(args, "-race")
	}
	args = append(args, source)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", source, err, out)
	}
	return os.Setenv(variable, program)
}

// user is as whom the agent and its commands run.
type user struct {
	name       string
	credential *syscall.Credential // nil: as the tests do
}

// users are root and an ordinary user where we may choose, else the user that we are.
func users() []user {
	if os.Geteuid() != 0 {
		return []user{{name: "self"}}
	}
	return []user{{name: "root"}, {name: "ordinary", credential: &syscall.Credential{Uid: 65534, Gid: 65534}}}
}

// own gives files to the user.
func (u user) own(paths ...string) error {
	if u.credential == nil {
		return nil
	}
	var errs []error
	for _, path := range paths {
		errs = append(errs, os.Chown(path, int(u.credential.Uid), int(u.credential.Gid)))
	}
	return errors.Join(errs...)
}
