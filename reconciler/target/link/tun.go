package link

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// tunDevice is what tun links are made by.
const tunDevice = "/dev/net/tun"

// tun is a tun link that was just made, and is gone again if it is closed without
// having been kept.
type tun struct{ fd int }

// createTun makes a tun link. The error matches syscall.EBUSY or syscall.EINVAL if
// there is a link of that name.
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
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, errors.Join(&rtnl.Error{Errno: errnoOf(err)}, unix.Close(fd))
	}
	return &tun{fd}, nil
}

func errnoOf(err error) (errno syscall.Errno) {
	errors.As(err, &errno)
	return errno
}

// keep has the link stay when it is closed.
func (d *tun) keep() error { return unix.IoctlSetInt(d.fd, unix.TUNSETPERSIST, 1) }

func (d *tun) close() error { return unix.Close(d.fd) }

// makeTuns creates tun links. They have no hardware address to be known by, so each
// is kept only once it has the alias: if the process dies before, it is gone.
func (u *updates) makeTuns(at []int) {
	devices := make(map[int]*tun, len(at))
	defer func() { // what was not kept is gone with this
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

// markTun records the index of a tun link and asks for its alias. The index tells that
// the link is ours while it is down: the kernel does not announce the alias then.
func (u *updates) markTun(i int, s state) {
	made := *s.rec.Created
	made.Index = s.link.Index
	if _, u.results[i].Err = u.target.keep(s, record{Created: &made}); u.results[i].Err != nil {
		return
	}
	c := setAlias(s.name, s.link.Index, s.link.Alias)
	u.request(i, c.request, c.does)
}

// explainTun names the link that has the name.
func (u *updates) explainTun(i int, err error) error {
	name := u.rows[i].Name
	if _, lookErr := u.target.conn.LinkByName(u.ctx, name); lookErr == nil {
		return fmt.Errorf("create %s %s: there is a link %s already: %w", Tun, name, name, syscall.EEXIST)
	}
	return fmt.Errorf("create %s %s: %w", Tun, name, err)
}
