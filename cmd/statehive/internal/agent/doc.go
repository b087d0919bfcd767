// Package agent is the list of cells that make our node agent, and the command
// line around them. An agent of one's own is made in the same way: all that
// stands here uses exported packages, but for the sandbox.
package agent
