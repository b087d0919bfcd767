package managedfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// aclAttribute is the extended attribute in which Linux shows an access control list.
const aclAttribute = "system.posix_acl_access"

// readACL returns the access control list of a file, as the kernel encodes it, or "" if it
// has none.
func readACL(fd int) (string, error) {
	list := make([]byte, 256)
	for {
		n, err := unix.Fgetxattr(fd, aclAttribute, list)
		switch {
		case errors.Is(err, unix.ERANGE) && len(list) < 1<<16: // the kernel's limit
			list = make([]byte, 1<<16)
		case errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("read its access control list: %w", err)
		default:
			return string(list[:n]), nil
		}
	}
}

// setACL gives a file an access control list; "" removes the one that it has.
func setACL(file *os.File, list string) error {
	var err error
	if list != "" {
		err = unix.Fsetxattr(int(file.Fd()), aclAttribute, []byte(list), 0)
	} else if err = unix.Fremovexattr(int(file.Fd()), aclAttribute); errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("set its access control list: %w", err)
	}
	return nil
}

// aclText says whether there is an access control list.
func aclText(list string) string {
	if list == "" {
		return "none"
	}
	return "present"
}
