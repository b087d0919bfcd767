package confine

import (
	"maps"
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
)

func TestForbiddenSystemCallsFailOnAllThreads(t *testing.T) {
	for name, attr := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			others := map[string]string{
				"clone3": "ENOSYS", "clone": "EINVAL", "ioctl": "EBADF",
				"unix pair": "EFAULT", "unix socket": "", "x32 39": "ENOSYS", "x32 41": "ENOSYS", "x32 520": "ENOSYS",
				"inet socket": "", "inet6 socket": "", "netlink socket": "",
			}
			r := child(t, attr)
			for thread, calls := range r.Calls {
				if len(calls) < 80 {
					t.Errorf("only %d calls were tried", len(calls))
				}
				for _, call := range slices.Sorted(maps.Keys(calls)) {
					want, ok := others[call]
					if !ok {
						want = "EPERM"
					}
					if got := calls[call]; got != want {
						t.Errorf("%s, on thread %d: %q, want %q", call, thread, got, want)
					}
				}
			}
			if want := "fork/exec /proc/self/exe: operation not permitted"; r.Exec != want {
				t.Errorf("running a program: %q, want %q", r.Exec, want)
			}
		})
	}
}

func TestOnlyWhatIsNeededIsLeftOnAllThreads(t *testing.T) {
	for name, attr := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			has := mask(Sandbox())
			want := map[string]string{
				"CapInh": mask(nil), "CapPrm": has, "CapEff": has, "CapBnd": has, "CapAmb": mask(nil), "NoNewPrivs": "1", "Seccomp": "2",
			}
			if name == "ordinary user" || name == "self" {
				want["CapPrm"], want["CapEff"] = mask(nil), mask(nil)
				delete(want, "CapBnd") // it takes a capability to drop from it
			}
			r := child(t, attr)
			if len(r.Status) < 2 {
				t.Errorf("%d threads", len(r.Status))
			}
			for _, status := range r.Status {
				for name, value := range want {
					if got := field(status, name); got != value {
						t.Errorf("%s: %q, want %q", name, got, value)
					}
				}
			}
		})
	}
}

// A name that no architecture has is spelled wrong.
func TestForbiddenSystemCallsExist(t *testing.T) {
	for _, group := range forbidden() {
		for _, name := range group {
			known := slices.ContainsFunc([]*arch.Info{arch.X86_64, arch.I386, arch.ARM, arch.AARCH64}, func(info *arch.Info) bool {
				_, ok := info.SyscallNames[name]
				return ok
			})
			if !known {
				t.Errorf("no architecture has %s", name)
			}
		}
	}
}

// A processor that runs programs of another architecture has other numbers for them: on one of x86-64, execve of i386 is 11,
// which is munmap.
func TestSystemCallsOfOtherArchitecturesAreRefused(t *testing.T) {
	p, err := policy()
	if err != nil {
		t.Fatal(err)
	}
	program, err := p.Assemble()
	if err != nil {
		t.Fatal(err)
	}
	// The first instructions look at the architecture; what they do for a foreign one is the end of the program.
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	info, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[arch.AuditArch]int{info.ID: allow, arch.PPC.ID: eperm} {
		got, err := vm.Run(call(info.SyscallNames["munmap"], id))
		if err != nil || got != want {
			t.Errorf("architecture %v: %#x, %v, want %#x", id, got, err, want)
		}
	}
}

// What the filter returns.
const (
	allow = 0x7fff0000
	eperm = 0x00050001
)

// call is what a filter sees of a call, as the virtual machine wants it: big-endian.
func call(number int, id arch.AuditArch) []byte {
	data := make([]byte, 64)
	for i := range 4 {
		data[i] = byte(number >> (24 - 8*i))
		data[4+i] = byte(uint32(id) >> (24 - 8*i))
	}
	return data
}
