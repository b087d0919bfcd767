package sysctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// Config says how a target works.
type Config struct {
	// Owned is the state directory. Required.
	Owned *ownership.Store
	// Root is the directory of the parameters; /proc/sys when empty.
	Root string
	// Allow, if not nil, returns an error for parameters that must not be
	// touched, by their dotted names. Rows with such a name fail permanently.
	Allow func(name string) error
}

// Target sets kernel parameters.
type Target struct {
	reconciler.NoPrune[Sysctl]

	files   files
	allow   func(name string) error
	records *ownership.Records[record]
	indexOf func(device string) (int, error) // [indexOf], except in tests
}

// record has the value of a parameter before we wrote it.
type record struct {
	Original string `json:"original"`
	// Device is the index of the device that the parameter belongs to; 0 if it belongs to
	// none. If the device was recreated under its old name, the record is void.
	Device int `json:"device,omitempty"`
}

// claims reports whether a record is about the parameter that now has its name.
func (t *Target) claims(name string, rec record) (bool, error) {
	if rec.Device == 0 {
		return true, nil
	}
	index, err := t.indexOf(Sysctl{Name: name}.Device())
	return err == nil && index == rec.Device, err
}

// indexOf returns the index of a device, or 0 if the name is empty or there is none
// of that name.
func indexOf(device string) (int, error) {
	if device == "" {
		return 0, nil
	}
	request, err := unix.NewIfreq(device)
	if err != nil {
		return 0, nil //nolint:nilerr // no device can have such a name
	}
	switch err := fillIndex(request); {
	case errors.Is(err, unix.ENODEV):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("look up device %s: %w", device, err)
	}
	return int(request.Uint32()), nil
}

func fillIndex(request *unix.Ifreq) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	return unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, request)
}

var (
	_ reconciler.Target[Sysctl]   = (*Target)(nil)
	_ reconciler.Observer[Sysctl] = (*Target)(nil)
	_ reconciler.Differ[Sysctl]   = (*Target)(nil)
)

// New returns a target. It returns an error if its records cannot be opened.
func New(cfg Config) (*Target, error) {
	if cfg.Root == "" {
		cfg.Root = "/proc/sys"
	}
	if cfg.Allow == nil {
		cfg.Allow = func(string) error { return nil }
	}
	records, err := ownership.NewRecords[record](cfg.Owned, "sysctl")
	if err != nil {
		return nil, err
	}
	return &Target{files: files{cfg.Root}, allow: cfg.Allow, records: records, indexOf: indexOf}, nil
}

// Init implements reconciler.Target. It drops the records of parameters that are
// gone, such as those of a removed device.
func (t *Target) Init(ctx context.Context) error {
	for name, rec := range t.records.All() {
		if ctx.Err() != nil {
			break
		}
		_, there, err := t.lookAt(name, rec)
		if there {
			continue // methods that need the value report read errors
		}
		if err == nil {
			err = t.records.Remove(name)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// lookAt reads the parameter that a record is about. The parameter counts as missing if it is
// gone, or if its device was recreated.
func (t *Target) lookAt(name string, rec record) (is string, there bool, err error) {
	is, err = t.files.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	claimed, claimErr := t.claims(name, rec)
	if claimErr != nil || !claimed {
		return "", false, claimErr
	}
	return is, true, err
}

// Update implements reconciler.Target. Parameters are identified only by name, so the device
// may be replaced by another one at any moment: then the record is void, and the row has to be
// tried again.
func (t *Target) Update(ctx context.Context, _ statedb.ReadTxn, row Sysctl) (reconciler.Result, error) {
	index, err := t.indexOf(row.Device())
	if err != nil {
		return reconciler.Result{}, fmt.Errorf("sysctl %s: %w", row.Name, err)
	}
	row, is, err := t.look(ctx, row)
	if err != nil {
		return reconciler.Result{}, err
	}
	if rec, known := t.records.Get(row.Name); !known || rec.Device != 0 && rec.Device != index {
		if err := t.records.Put(row.Name, record{Original: is, Device: index}); err != nil {
			return reconciler.Result{}, err
		}
	}
	result, err := steps.Take(ctx, t.steps(row, is))
	if other := t.checkDevice(row, index); other != nil {
		return result, other
	}
	return result, err
}

// checkDevice returns an error if the index of a row's device has changed.
func (t *Target) checkDevice(row Sysctl, index int) error {
	now, err := t.indexOf(row.Device())
	switch {
	case err != nil:
		return fmt.Errorf("sysctl %s: %w", row.Name, err)
	case now != index:
		return fmt.Errorf("sysctl %s: device %s was removed or made again while it was set", row.Name, row.Device())
	}
	return nil
}

// Diff implements reconciler.Differ.
func (t *Target) Diff(ctx context.Context, _ statedb.ReadTxn, row Sysctl) ([]reconciler.Change, error) {
	row, is, err := t.look(ctx, row)
	if err != nil {
		return nil, err
	}
	return steps.Changes(t.steps(row, is)), nil
}

// look checks the row and reads the parameter.
func (t *Target) look(ctx context.Context, row Sysctl) (checked Sysctl, is string, err error) {
	if row, err = row.Normalized(); err != nil {
		return row, "", reconciler.Terminal(err)
	}
	if err := t.allow(row.Name); err != nil {
		return row, "", reconciler.Terminal(fmt.Errorf("sysctl %s: %w", row.Name, err))
	}
	if err := ctx.Err(); err != nil {
		return row, "", err
	}
	is, err = t.files.read(row.Name)
	return row, is, err
}

func (t *Target) steps(row Sysctl, is string) []steps.Step {
	return steps.Field("value", words(is), row.Value, func() error { return t.write(row) })
}

// write sets a parameter and checks that the kernel accepted the value unchanged;
// otherwise every pass would find it out of sync.
func (t *Target) write(row Sysctl) error {
	if err := t.files.write(row.Name, row.Value); err != nil {
		return err
	}
	is, err := t.files.read(row.Name)
	if err != nil {
		return err
	}
	if words(is) != row.Value {
		return reconciler.Terminal(fmt.Errorf("sysctl %s: the kernel made %q of the value %q: write what it makes of it", row.Name, words(is), row.Value))
	}
	return nil
}

// Delete implements reconciler.Target: it restores the original value.
func (t *Target) Delete(ctx context.Context, _ statedb.ReadTxn, row Sysctl) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name := string(row.Key())
	before, known := t.records.Get(name)
	if !known {
		return nil
	}
	claimed, err := t.claims(name, before)
	if err != nil {
		return fmt.Errorf("sysctl %s: %w", name, err)
	}
	if claimed {
		if err := t.restore(name, before.Original); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return t.records.Remove(name)
}

func (t *Target) restore(name, original string) error {
	is, err := t.files.read(name)
	if err != nil || is == original {
		return err
	}
	return t.files.write(name, original)
}

// Observe implements reconciler.Observer: it yields the parameters that have records and exist.
// Delete and Init drop the records of parameters that are gone with their devices.
func (t *Target) Observe(ctx context.Context) iter.Seq2[Sysctl, error] {
	return func(yield func(Sysctl, error) bool) {
		for name, rec := range t.records.All() {
			is, there, err := t.lookAt(name, rec)
			if !there && err == nil {
				continue
			}
			if err == nil {
				err = ctx.Err()
			}
			if !yield(Sysctl{Name: name, Value: words(is)}, err) || err != nil {
				return
			}
		}
	}
}
