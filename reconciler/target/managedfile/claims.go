package managedfile

import (
	"path"
	"sync"
)

// claims maps the real paths of files to rows, since two rows for one file would undo each
// other's work for ever. The first row gets the file. It is safe for concurrent use.
type claims struct {
	mu     sync.Mutex
	owners map[string]Key
	places map[Key]string
}

func newClaims() *claims { return &claims{owners: map[string]Key{}, places: map[Key]string{}} }

// placeOf returns the path of a file in f without symbolic links.
func (f *folder) placeOf(key Key) string { return path.Join(f.path, baseOf(key)) }

// claim gives a place to a row and releases the row's previous place. If the place belongs to
// another row, claim returns that row.
func (c *claims) claim(key Key, place string) (other Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, known := c.places[key]; known && before != place {
		delete(c.owners, before)
		delete(c.places, key)
	}
	if owner, known := c.owners[place]; known && owner != key {
		return owner
	}
	c.owners[place], c.places[key] = key, place
	return ""
}

// others returns the row that a place belongs to, if it is not this one.
func (c *claims) others(key Key, place string) (other Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner := c.owners[place]; owner != key {
		return owner
	}
	return ""
}

// release ends the claim of a row.
func (c *claims) release(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if place, known := c.places[key]; known {
		delete(c.owners, place)
		delete(c.places, key)
	}
}
