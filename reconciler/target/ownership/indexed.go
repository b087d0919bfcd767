package ownership

import "sync"

// Indexed are records that are also found by something else than their keys, such as the index of a network device that
// may be renamed. Its methods are safe for concurrent use, as those of [Records]. Write records only with its methods.
type Indexed[T any, By comparable] struct {
	*Records[T]

	by   func(key string, record T) (By, bool)
	mu   sync.Mutex
	keys map[By]string
}

// IndexBy indexes records by what a function returns for each of them; records for which it returns false are left out.
// Of several records with the same index, one is found.
func IndexBy[T any, By comparable](records *Records[T], by func(key string, record T) (By, bool)) *Indexed[T, By] {
	x := &Indexed[T, By]{Records: records, by: by, keys: map[By]string{}}
	for key, record := range records.All() {
		x.add(key, record)
	}
	return x
}

func (x *Indexed[T, By]) add(key string, record T) {
	if by, ok := x.by(key, record); ok {
		x.keys[by] = key
	}
}

// Put is [Records.Put].
func (x *Indexed[T, By]) Put(key string, record T) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	before, known := x.Get(key)
	if err := x.Records.Put(key, record); err != nil {
		return err
	}
	x.drop(key, before, known)
	x.add(key, record)
	return nil
}

// Remove is [Records.Remove].
func (x *Indexed[T, By]) Remove(key string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	before, known := x.Get(key)
	if err := x.Records.Remove(key); err != nil {
		return err
	}
	x.drop(key, before, known)
	return nil
}

// drop removes a record that was known from the index.
func (x *Indexed[T, By]) drop(key string, record T, known bool) {
	if !known {
		return
	}
	if by, ok := x.by(key, record); ok && x.keys[by] == key {
		delete(x.keys, by)
	}
}

// Find returns the key of a record with an index.
func (x *Indexed[T, By]) Find(by By) (key string, found bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	key, found = x.keys[by]
	return key, found
}
