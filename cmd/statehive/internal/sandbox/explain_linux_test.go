package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestExplainNamesTheReasonAndWhatToDo(t *testing.T) {
	const namespaces, userMap = "self/ns/user", "self/uid_map"
	const insideMap = "0 1000 1\n"
	cases := []struct {
		name  string
		files map[string]string
		uid   int
		cause error
		want  []string
	}{
		{
			"user namespaces switched off",
			map[string]string{namespaces: "", "sys/user/max_user_namespaces": "0\n"},
			0, unix.ENOSPC,
			[]string{"user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces=10000"},
		},
		{
			"network namespaces switched off",
			map[string]string{namespaces: "", "sys/user/max_net_namespaces": "0\n"},
			0, unix.ENOSPC,
			[]string{"user.max_net_namespaces is 0"},
		},
		{
			"only root may",
			map[string]string{namespaces: "", "sys/kernel/unprivileged_userns_clone": "0\n"},
			1000, unix.EPERM,
			[]string{"kernel.unprivileged_userns_clone is 0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		},
		{
			"only root may, and this is root",
			map[string]string{namespaces: "", "sys/kernel/unprivileged_userns_clone": "0\n"},
			0, unix.EPERM,
			[]string{"chroot", "seccomp"},
		},
		{
			"AppArmor, seen from inside",
			map[string]string{
				namespaces: "", userMap: insideMap, "sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
			},
			0, unix.EACCES,
			[]string{"kernel.apparmor_restrict_unprivileged_userns is 1", "sysctl -w", `AppArmor profile`},
		},
		{
			"AppArmor does not restrict",
			map[string]string{
				namespaces: "", "sys/kernel/apparmor_restrict_unprivileged_userns": "0\n",
			},
			1000, unix.EPERM,
			[]string{"seccomp"},
		},
		{
			"limit reached",
			map[string]string{namespaces: "", "sys/user/max_user_namespaces": "100\n"},
			1000, unix.ENOSPC,
			[]string{"too many namespaces"},
		},
		{"old kernel", map[string]string{namespaces: ""}, 1000, unix.EINVAL, []string{"newer kernel"}},
		{"kernel without user namespaces", nil, 1000, unix.ENOENT, []string{"CONFIG_USER_NS"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := machine{proc: fakeProc(t, c.files), uid: c.uid}
			err := m.explain("trying", fmt.Errorf("fork/exec: %w", c.cause))
			if !errors.Is(err, ErrUnavailable) || !errors.Is(err, c.cause) {
				t.Errorf("%v: is not ErrUnavailable by %v", err, c.cause)
			}
			for _, want := range append(c.want, "trying", "without --sandbox as root") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
		})
	}
}

func TestExplainLeavesOtherErrorsAlone(t *testing.T) {
	err := machine{proc: fakeProc(t, map[string]string{"self/ns/user": ""})}.explain("trying", unix.ENOMEM)
	if errors.Is(err, ErrUnavailable) || !errors.Is(err, unix.ENOMEM) {
		t.Errorf("got %v, want ENOMEM that is not ErrUnavailable", err)
	}
}

func fakeProc(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestLockedFlagsAreTranslated(t *testing.T) {
	cases := []struct {
		name   string
		statfs int64
		want   uintptr
	}{
		{"plain", unix.ST_RELATIME | unix.ST_RDONLY, unix.MS_RELATIME},
		{
			"hardened", unix.ST_RELATIME | unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC,
			unix.MS_RELATIME | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC,
		},
		{"noatime", unix.ST_NOATIME | unix.ST_NODIRATIME, unix.MS_NOATIME | unix.MS_NODIRATIME},
		{"strictatime", unix.ST_NOSUID, unix.MS_STRICTATIME | unix.MS_NOSUID},
	}
	for _, c := range cases {
		if got := lockedFlags(c.statfs); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
}
