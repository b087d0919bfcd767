// Command kernel measures the agent on a real kernel beside ip -batch, and writes
// a table of the medians with their goals in Markdown.
//
// Each trial runs in network and mount namespaces of its own, which nothing else
// uses: the program runs itself again for it. Root gets no user namespace, so that
// large receive buffers are allowed; others get one.
//
// The peer of the other kinds is nft -f for tables of nftables, and for files a loop that
// copies each and syncs it.
//
// A trial of the agent starts the real program, renames documents into place and
// waits for the last status. A trial of the peer lets ip -batch do the same from a
// file with the same objects. Trials alternate, so that whatever else the machine
// does meets both alike. Only changes of a single row are measured in this process,
// with the table, the target, the mirror and the reconciler of the agent, since the
// source looks at whole files.
//
// How the agent stands is read from its metrics, which need no look at any row;
// its status, which counts rows, is asked for only when these say that it is idle.
package main
