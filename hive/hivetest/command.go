package hivetest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// poll is how often `within` tries.
const poll = 20 * time.Millisecond

const agentUsage = "agent start [FLAG...] | stop | COMMAND [ARG...]"

func agentCommand(ts *testscript.TestScript, negative bool, args []string) {
	w := worldOf(ts)
	var err error
	switch {
	case len(args) >= 1 && args[0] == "start":
		err = tell(ts, w.start(args[1:]))
	case len(args) == 1 && args[0] == "stop":
		err = tell(ts, w.stop())
	case len(args) >= 1 && args[0] != "stop":
		r := w.call(args)
		show(ts, r)
		ts.Check(r.err)
		err = r.failure()
	default:
		ts.Fatalf("usage: %s", agentUsage)
	}
	expect(ts, negative, err)
}

// tell makes an error the standard error of the script's last command.
func tell(ts *testscript.TestScript, err error) error {
	if err != nil {
		fmt.Fprintln(ts.Stderr(), err)
	}
	return err
}

// lineCommand is the command line of the hive.
func lineCommand(ts *testscript.TestScript, negative bool, args []string) {
	r := worldOf(ts).run(args)
	show(ts, r)
	ts.Check(r.err)
	expect(ts, negative, r.failure())
}

// expect fails the script if a command did not end as it says.
func expect(ts *testscript.TestScript, negative bool, err error) {
	if negative && err == nil {
		ts.Fatalf("unexpected success")
	}
	if !negative {
		ts.Check(err)
	}
}

// show makes the output that of the script's last command.
func show(ts *testscript.TestScript, r result) {
	fmt.Fprint(ts.Stdout(), r.stdout)
	fmt.Fprint(ts.Stderr(), r.stderr)
}

func withinCommand(ts *testscript.TestScript, negative bool, args []string) {
	if negative || len(args) < 3 {
		ts.Fatalf("usage: within TIME succeeds|fails|shows REGEXP|hides REGEXP COMMAND...; it cannot be negated")
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	check, command, err := expectation(args[1:])
	ts.Check(err)
	w := worldOf(ts)
	run, err := w.runnerOf(command)
	ts.Check(err)
	var last result
	err = until(w.ctx, limit, func() error {
		last = run(command[1:])
		return errors.Join(last.err, check(last))
	})
	show(ts, last)
	ts.Check(err)
}

// runnerOf is what runs a command that can be tried again.
func (w *world) runnerOf(command []string) (func(args []string) result, error) {
	switch {
	case len(command) > 0 && command[0] == w.scripts.Name:
		return w.run, nil
	case len(command) > 1 && command[0] == "agent" && command[1] != "start" && command[1] != "stop":
		return w.call, nil
	}
	return nil, fmt.Errorf("within tries command lines of the hive, and commands of the agent: expected one that begins with %s or agent, got %q",
		w.scripts.Name, command)
}

// expectation is what a result is checked for, and the command.
func expectation(args []string) (check func(result) error, command []string, err error) {
	switch args[0] {
	case "succeeds":
		return result.failure, args[1:], nil
	case "fails":
		return func(r result) error {
			if r.failure() == nil {
				return errors.New("it succeeds")
			}
			return nil
		}, args[1:], nil
	case "shows", "hides":
		return output(args[0] == "shows", args[1]), args[2:], nil
	}
	return nil, nil, fmt.Errorf("unknown expectation %q: expected succeeds, fails, shows REGEXP or hides REGEXP", args[0])
}

// output checks whether what is written matches, or does not.
func output(wanted bool, expression string) func(result) error {
	pattern, err := regexp.Compile("(?m)" + expression)
	return func(r result) error {
		if err != nil || pattern.MatchString(r.stdout+r.stderr) == wanted {
			return err
		}
		return fmt.Errorf("%s\n%s%s", expression, r.stdout, r.stderr)
	}
}

// until tries until there is no error, or the limit is over.
func until(ctx context.Context, limit time.Duration, try func() error) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for began := time.Now(); ; {
		err := try()
		if err == nil {
			return nil
		}
		// What was tried at the very end may have begun before it.
		if time.Since(began) > limit {
			return fmt.Errorf("not within %v: %w", limit, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
