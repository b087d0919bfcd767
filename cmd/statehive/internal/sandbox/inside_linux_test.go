package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInsideIsFalseOutside(t *testing.T) {
	if _, inside, err := Inside(); inside || err != nil {
		t.Errorf("Inside: %v, %v; want false", inside, err)
	}
}

func TestInsideRefusesAForgedVariable(t *testing.T) {
	ids, err := namespaceIDs()
	if err != nil {
		t.Fatal(err)
	}
	here, err := handover{Outside: ids}.variable()
	if err != nil {
		t.Fatal(err)
	}
	_, here, _ = strings.Cut(here, "=")
	cases := map[string]struct{ value, want string }{
		"of a parent in our namespaces": {here, "still in the parent's mnt namespace"},
		"of other namespaces":           {`{"outside":{"user":1,"net":2,"mnt":3}}`, "expected root as the only user"},
		"without namespaces":            {`{"outside":{}}`, "the parent's mnt namespace is missing"},
		"of another kind":               {"true", "unset it"},
		"empty":                         {"", "unset it"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv(Variable, c.value)
			_, inside, err := Inside()
			if inside || !errors.Is(err, ErrNotInside) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Inside: %v, %v; want ErrNotInside with %q", inside, err, c.want)
			}
		})
	}
}

func TestUserMapOfOneUserIsExpected(t *testing.T) {
	cases := map[string]bool{
		"         0       1000          1\n":             true,
		"         0          0 4294967295\n":             false,
		"         0       1000          1\n1 100000 9\n": false,
		"      1000       1000          1\n":             false,
		"":                                               false,
	}
	for text, want := range cases {
		path := filepath.Join(t.TempDir(), "uid_map")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := verifyUserMap(path); (err == nil) != want {
			t.Errorf("%q: %v, want accepted: %v", text, err, want)
		}
	}
}

func TestUnknownListenerErrorSaysWhichExist(t *testing.T) {
	_, err := (&Inherited{listeners: map[string]int{"metrics": 4, "api": 3}}).Listener("web")
	if !errors.Is(err, ErrNoListener) || !strings.Contains(err.Error(), "api, metrics") {
		t.Errorf("Listener: %v, want ErrNoListener which names api, metrics", err)
	}
}
