//go:build !pointer

package main

// Rows by value.
type (
	object  = row
	network = route
)

func objectOf(r row) object     { return r }
func rowOf(o object) row        { return o }
func networkOf(r route) network { return r }
