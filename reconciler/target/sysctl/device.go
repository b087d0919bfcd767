package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/procsys"
)

// devices looks up network devices.
type devices struct {
	// indexOf returns the index of a device, or 0 if the name is empty or there is none of that name.
	indexOf func(name string) (int, error)
	// nameOf returns the name of a device, or "" if there is none with that index.
	nameOf func(index int) (string, error)
}

var kernelDevices = devices{indexOf: indexOf, nameOf: nameOf}

func indexOf(name string) (int, error) {
	request, err := unix.NewIfreq(name)
	if err != nil || name == "" {
		return 0, nil //nolint:nilerr // no device can have such a name
	}
	there, err := ask(unix.SIOCGIFINDEX, request)
	switch {
	case err != nil:
		return 0, fmt.Errorf("look up device %s: %w", name, err)
	case !there:
		return 0, nil
	}
	return int(request.Uint32()), nil
}

func nameOf(index int) (string, error) {
	request, err := unix.NewIfreq("")
	if err != nil {
		return "", err
	}
	request.SetUint32(uint32(index)) //nolint:gosec // indexes are positive
	there, err := ask(unix.SIOCGIFNAME, request)
	switch {
	case err != nil:
		return "", fmt.Errorf("look up the device with index %d: %w", index, err)
	case !there:
		return "", nil
	}
	return request.Name(), nil
}

// mtuOf returns the MTU of a device, or 0 if there is none of that name.
func mtuOf(name string) (uint32, error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return 0, nil //nolint:nilerr // no device can have such a name
	}
	there, err := ask(unix.SIOCGIFMTU, request)
	switch {
	case err != nil:
		return 0, fmt.Errorf("look up the MTU of device %s: %w", name, err)
	case !there:
		return 0, nil
	}
	return request.Uint32(), nil
}

// ask fills in a request, and reports whether its device exists.
func ask(about uint, request *unix.Ifreq) (there bool, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	if err = unix.IoctlIfreq(fd, about, request); errors.Is(err, unix.ENODEV) {
		return false, nil
	}
	return err == nil, err
}

// parameter identifies a parameter of a device, whatever the name of the device is.
type parameter struct {
	device int    // its index
	path   string // as if the device had no name
}

func parameterOf(name string, device int) parameter {
	return parameter{device, withDevice(name, "")}
}

func recorded(name string, rec record) (parameter, bool) {
	return parameterOf(name, rec.Device), rec.Device != 0
}

// withDevice returns the dotted name of the same parameter of another device, or the name itself if it is of none.
func withDevice(name, device string) string {
	if (Sysctl{Name: name}).Device() == "" {
		return name
	}
	parts := strings.Split(procsys.PathOf(name), "/")
	parts[3] = device
	return procsys.NameOf(strings.Join(parts, "/"))
}

// nameNow returns the name that the parameter of a record has now, or "" if its device is gone.
func (t *Target) nameNow(name string, rec record) (string, error) {
	if rec.Device == 0 {
		return name, nil
	}
	device, err := t.devices.nameOf(rec.Device)
	if err != nil || device == "" {
		return "", err
	}
	return withDevice(name, device), nil
}

// follow prepares an update of a row whose device has an index, if its name was that of another device's parameter, or
// if the device had another name: the first gets its value back, and the record of the second gets its new name.
func (t *Target) follow(row Sysctl, index int) error {
	name := row.Name
	if index == 0 {
		return nil
	}
	t.moving.Lock()
	defer t.moving.Unlock()
	if rec, known := t.records.Get(name); known && rec.Device != 0 && rec.Device != index {
		if err := t.release(name, row.Value); err != nil {
			return err
		}
	}
	before, found := t.records.Find(parameterOf(name, index))
	if !found || before == name {
		return nil
	}
	rec, _ := t.records.Get(before)
	if err := t.records.Put(name, rec); err != nil {
		return err
	}
	return t.records.Remove(before)
}

// release ends a record of a device that is gone or was renamed. The value of one that was renamed is restored, unless it has a
// record under the new name, or is not the declared one because others have changed it.
func (t *Target) release(name, declared string) error {
	rec, known := t.records.Get(name)
	if !known {
		return nil
	}
	now, err := t.nameNow(name, rec)
	if err != nil {
		return fmt.Errorf("sysctl %s: %w", name, err)
	}
	ours, err := t.isOurs(name, now, rec, declared)
	switch {
	case err != nil:
		return err
	case !ours:
		return t.records.Remove(name)
	}
	return t.giveUp(name, now, rec)
}

// errUnknown is the error of a row that Observe could not read the value of.
var errUnknown = errors.New("it is not known yet whether others have changed it since its device was renamed: what the agent has is looked through again")

// isOurs reports whether the parameter of a record, which has a name now, has no newer record and the declared value.
func (t *Target) isOurs(name, now string, rec record, declared string) (bool, error) {
	if now == name || now == "" {
		return now != "", nil
	}
	if newer, known := t.records.Get(now); known && newer.Device == rec.Device {
		return false, nil
	}
	is, err := t.files.Read(now)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && declared == "" {
		return false, fmt.Errorf("sysctl %s: %w", name, errUnknown)
	}
	return words(is) == declared, err
}
