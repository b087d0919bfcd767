package ownership

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStateDirectoriesOfOthersAreRefused(t *testing.T) {
	for _, c := range []struct {
		owner uint32
		mode  uint32
		user  int
		want  string
	}{
		{0, 0o700, 0, "<nil>"},
		{1000, 0o775, 1000, "<nil>"},
		{0, 0o770, 1000, "<nil>"},
		{1000, 0o700, 0, "belongs to user 1000, expected user 0"},
		{1001, 0o700, 1000, "belongs to user 1001, expected user 1000"},
		{0, 0o1777, 0, "can be written by everyone: take that away (chmod o-w)"},
	} {
		got := refuse(unix.Stat_t{Uid: c.owner, Mode: unix.S_IFDIR | c.mode}, c.user)
		if fmt.Sprint(got) != c.want {
			t.Errorf("directory of user %d with mode %o for user %d: %v, expected %s", c.owner, c.mode, c.user, got, c.want)
		}
	}
}
