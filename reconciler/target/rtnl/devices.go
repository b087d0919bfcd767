package rtnl

import (
	"context"
	"fmt"
)

// Devices is the set of existing links, for mirrors of objects that belong to links. The mirrors
// list the links once and follow their changes. The zero value is empty. It belongs to one
// goroutine.
type Devices struct{ links map[int]Link }

// List lists all links, and forgets the previous ones.
func (d *Devices) List(ctx context.Context, conn *Conn) error {
	links, err := conn.Links(ctx)
	if err != nil {
		return err
	}
	d.links = make(map[int]Link, len(links))
	for _, link := range links {
		d.links[link.Index] = link
	}
	return nil
}

// Change adds a new link or updates a changed one. It returns the previous state of the link,
// and whether its names have changed.
func (d *Devices) Change(link Link) (before Link, renamed bool) {
	before, known := d.links[link.Index]
	d.links[link.Index] = link
	return before, !known || before.Name != link.Name || before.Others != link.Others
}

// Remove forgets a link that is gone.
func (d *Devices) Remove(index int) { delete(d.links, index) }

// Of returns the link with an index.
func (d *Devices) Of(index int) (link Link, known bool) {
	link, known = d.links[index]
	return link, known
}

// Names returns the name of a link and its alternative names, separated by spaces. The name
// of an unknown link is its index, as "#7".
func (d *Devices) Names(index int) (name, others string) {
	link, known := d.Of(index)
	if !known {
		return fmt.Sprintf("#%d", index), ""
	}
	return link.Name, link.Others
}

// HasUnannounced reports whether there are links that are down: the kernel does not announce their alternative names.
func (d *Devices) HasUnannounced(context.Context) bool {
	for _, link := range d.links {
		if !link.Up {
			return true
		}
	}
	return false
}
