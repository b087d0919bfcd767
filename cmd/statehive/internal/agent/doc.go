// Package agent lists the cells of the node agent and builds its command line. An agent
// of your own is made in the same way: except for the sandbox, everything here uses
// exported packages.
package agent
