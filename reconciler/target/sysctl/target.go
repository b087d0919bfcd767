package sysctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/parallel"
	"github.com/statehive/statehive/reconciler/target/internal/procsys"
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

	files   *procsys.Files
	allow   func(name string) error
	records *ownership.Indexed[record, parameter]
	devices devices
	changed chan struct{} // receives after writes that may change other parameters
	moving  sync.Mutex    // held while a record is released or renamed because its device was renamed
}

// record has the value of a parameter before we wrote it.
type record struct {
	Original string `json:"original"`
	// Device is the index of the device that the parameter belongs to; 0 if it belongs to
	// none. It tells a device that was renamed from one that has its name now. If it is gone, the record is void.
	Device int `json:"device,omitempty"`
	// All is the value, at that time, of the parameter of all devices that the kernel copies to this one; empty if there is none.
	// If it is another one now, Original is void.
	All string `json:"all,omitempty"`
}

var (
	_ reconciler.Target[Sysctl]   = (*Target)(nil)
	_ reconciler.Observer[Sysctl] = (*Target)(nil)
	_ reconciler.Differ[Sysctl]   = (*Target)(nil)
)

// New returns a target. It returns an error if its records cannot be opened.
func New(cfg Config) (*Target, error) {
	if cfg.Root == "" {
		cfg.Root = procsys.Default
	}
	if cfg.Allow == nil {
		cfg.Allow = func(string) error { return nil }
	}
	records, err := ownership.NewRecords[record](cfg.Owned, "sysctl")
	if err != nil {
		return nil, err
	}
	return &Target{files: procsys.New(cfg.Root), allow: cfg.Allow, records: ownership.IndexBy(records, recorded), devices: kernelDevices, changed: make(chan struct{}, 1)}, nil
}

// Init implements reconciler.Target. It drops the records of parameters that are
// gone, such as those of a removed device.
func (t *Target) Init(ctx context.Context) error {
	all := maps.Collect(t.records.All())
	names, errs := slices.Sorted(maps.Keys(all)), make([]error, len(all))
	parallel.Each(len(names), func(i int) { // some may take long: see procsys
		_, there, err := t.lookAt(names[i], all[names[i]])
		if err == nil && !there && ctx.Err() == nil {
			err = t.records.Remove(names[i])
		}
		if !there {
			errs[i] = err // methods that need the value report read errors
		}
	})
	return errors.Join(append(errs, ctx.Err())...)
}

// lookAt reads the parameter that a record is about, wherever it is now.
func (t *Target) lookAt(name string, rec record) (is string, there bool, err error) {
	now, err := t.nameNow(name, rec)
	if err != nil || now == "" {
		return "", false, err
	}
	is, err = t.files.Read(now)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return is, true, err
}

// Update implements reconciler.Target. Rows name devices, and another device may get that name
// at any moment: then the row has to be tried again.
func (t *Target) Update(ctx context.Context, _ statedb.ReadTxn, row Sysctl) (reconciler.Result, error) {
	index, err := t.devices.indexOf(row.Device())
	if err != nil {
		return reconciler.Result{}, fmt.Errorf("sysctl %s: %w", row.Name, err)
	}
	if row, err = t.check(ctx, row); err != nil {
		return reconciler.Result{}, err
	}
	if err := t.follow(row, index); err != nil {
		return reconciler.Result{}, err
	}
	all, err := t.ofAll(row.Name) // before that of the device, which may change with it
	if err != nil {
		return reconciler.Result{}, err
	}
	is, err := t.files.Read(row.Name)
	if err != nil {
		return reconciler.Result{}, err
	}
	if rec, known := t.records.Get(row.Name); !known || rec.Device != 0 && rec.Device != index {
		if err := t.records.Put(row.Name, record{Original: is, Device: index, All: all}); err != nil {
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
	now, err := t.devices.indexOf(row.Device())
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
	row, err := t.check(ctx, row)
	if err != nil {
		return nil, err
	}
	is, err := t.files.Read(row.Name)
	if err != nil {
		return nil, err
	}
	return steps.Changes(t.steps(row, is)), nil
}

// check returns the normalized row.
func (t *Target) check(ctx context.Context, row Sysctl) (Sysctl, error) {
	row, err := row.Normalized()
	if err != nil {
		return row, reconciler.Terminal(err)
	}
	if err := t.allow(row.Name); err != nil {
		return row, reconciler.Terminal(fmt.Errorf("sysctl %s: %w", row.Name, err))
	}
	return row, ctx.Err()
}

func (t *Target) steps(row Sysctl, is string) []steps.Step {
	return steps.Field("value", words(is), row.Value, func() error { return t.write(row) })
}

// write sets a parameter and checks that the kernel accepted the value unchanged;
// otherwise every pass would find it out of sync.
func (t *Target) write(row Sysctl) error {
	if err := t.set(row.Name, row.Value); err != nil {
		return err
	}
	is, err := t.files.Read(row.Name)
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
	rec, known := t.records.Get(name)
	if !known {
		return nil
	}
	now, err := t.nameNow(name, rec)
	if err != nil {
		return fmt.Errorf("sysctl %s: %w", name, err)
	}
	if now != name {
		t.moving.Lock()
		defer t.moving.Unlock()
		return t.release(name, words(row.Value))
	}
	return t.giveUp(name, now, rec)
}

// giveUp restores the value of a parameter that has a name now, and removes the record that it has under its earlier name. If the
// parameter of all devices was changed since, the kernel has given its value to this one too, which has it again then.
func (t *Target) giveUp(name, now string, rec record) error {
	if rec.All != "" {
		all, err := t.ofAll(now)
		if err != nil {
			return err
		}
		if all != "" && all != rec.All {
			rec.Original = all
		}
	}
	if err := t.restore(now, rec.Original); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return t.records.Remove(name)
}

// ofAll returns the value of the parameter of all devices that the kernel copies to another one, or "" if there is none.
func (t *Target) ofAll(name string) (string, error) {
	all := Sysctl{Name: name}.ofAll()
	if all == "" {
		return "", nil
	}
	value, err := t.files.Read(all)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return value, err
}

func (t *Target) restore(name, original string) error {
	is, err := t.files.Read(name)
	if err != nil || is == original || original == "" && procsys.IsSecret(name) {
		return err
	}
	err = t.set(name, original)
	if device := (Sysctl{Name: name}).Device(); errors.Is(err, syscall.EINVAL) && name == string(MTUOf(device)) {
		return t.setToLink(name, device) // it may not be greater than that of the link, which is smaller now
	}
	return err
}

// setToLink sets the IPv6 MTU of a device to the MTU of its link, as the kernel does with new devices.
func (t *Target) setToLink(name, device string) error {
	mtu, err := mtuOf(device)
	if err != nil || mtu == 0 {
		return err
	}
	return t.set(name, strconv.FormatUint(uint64(mtu), 10))
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
			if errors.Is(err, procsys.ErrBusy) { // its own operations report that
				is, err = "", nil
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
