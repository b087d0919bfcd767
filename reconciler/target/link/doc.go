// Package link is the built-in target for network links: it creates bridges and
// veth pairs and sets attributes of links that exist.
package link
