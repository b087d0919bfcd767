package link

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// tunDevice is the device that creates tun links.
const tunDevice = "/dev/net/tun"

// tun is a newly created tun link. It disappears when it is closed, unless keep was called.
type tun struct{ fd int }

// createTun creates a tun link, which belongs to the user of this process: one without an owner is open to
// all users who can open the device, and that is usually everybody. The error matches syscall.EBUSY or
// syscall.EINVAL if a link of that name exists.
func createTun(name string) (*tun, error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("open %s: %w: the user of this process must be able to write it", tunDevice, err)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENXIO):
		return nil, fmt.Errorf("open %s: %w: the kernel needs the module tun, and a container the device", tunDevice, err)
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", tunDevice, err)
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_TUN_EXCL)
	err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.TUNSETOWNER, os.Geteuid())
	}
	if err != nil {
		return nil, errors.Join(&rtnl.Error{Errno: errnoOf(err)}, unix.Close(fd))
	}
	return &tun{fd}, nil
}

func errnoOf(err error) (errno syscall.Errno) {
	errors.As(err, &errno)
	return errno
}

// keep makes the link persist after close.
func (d *tun) keep() error { return unix.IoctlSetInt(d.fd, unix.TUNSETPERSIST, 1) }

func (d *tun) close() error { return unix.Close(d.fd) }

// makeTuns creates tun links. They have no hardware address to identify them, so each link is
// kept only once it has the alias: if the process dies before that, the link disappears.
func (u *updates) makeTuns(at []int) {
	devices := make(map[int]*tun, len(at))
	defer func() { // this removes the links that were not kept
		for i, device := range devices {
			u.results[i].Err = errors.Join(u.results[i].Err, device.close())
		}
	}()
	for _, i := range at {
		if u.results[i].Err = u.ctx.Err(); u.results[i].Err != nil {
			continue
		}
		device, err := createTun(u.rows[i].Name)
		if err != nil {
			u.results[i].Err = u.explainTun(i, err)
			continue
		}
		devices[i] = device
	}
	l := u.target.looker(u.ctx)
	for i := range devices {
		s, err := l.look(u.rows[i].Name)
		switch {
		case err != nil:
			u.results[i].Err = err
		case s.link == nil:
			u.results[i].Err = &rtnl.NoLinkError{Name: s.name}
		default:
			u.markTun(i, s)
		}
	}
	u.execute(asItIs)
	for i, device := range devices {
		if u.results[i].Err == nil {
			u.results[i].Err = device.keep()
		}
	}
}

// rehearseTun sets the error of a row whose tun link cannot be created. The one that it creates, with another name, disappears.
func (u *updates) rehearseTun(i int, name string) {
	device, err := createTun(name)
	if err == nil {
		err = device.close()
	}
	if err != nil {
		u.results[i].Err = cannotRecreate(u.rows[i], fmt.Errorf("create %s %s: %w", Tun, u.rows[i].Name, err))
	}
}

// markTun records the index of a tun link and requests its alias. The index identifies the
// link as ours while it is down, because the kernel does not announce its alias then.
func (u *updates) markTun(i int, s state) {
	made := *s.rec.Created
	made.Index = s.link.Index
	if _, u.results[i].Err = u.target.keep(s, record{Created: &made}); u.results[i].Err != nil {
		return
	}
	c := setAlias(s.name, s.link.Index, s.link.Alias, alias)
	u.request(i, c.request, c.does)
}

// explainTun returns the error of a row whose tun link could not be created. It says so if
// the name is taken.
func (u *updates) explainTun(i int, err error) error {
	name := u.rows[i].Name
	if _, lookErr := u.target.conn.LinkByName(u.ctx, name); lookErr == nil {
		return fmt.Errorf("create %s %s: link %s already exists: %w", Tun, name, name, syscall.EEXIST)
	}
	return fmt.Errorf("create %s %s: %w", Tun, name, err)
}
