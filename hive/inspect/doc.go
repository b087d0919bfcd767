// Package inspect is the HTTP API of a running hive on a unix socket: the server, as a cell, and the client.
//
// Cells contribute endpoints; this package knows none of them but GET /v1/agent. Answers are JSON; an error is
// {"error": "text"} with the HTTP status. The socket has mode 0600, and the peer of every connection must be root or the user
// that the server runs as; others are cut off and logged. Bodies and headers are bounded, slow clients are cut off, a panic in
// a handler is an answer with status 500. A user has at most 40 requests in hand, but for root, follows at most 16 answers that
// go on, and sends 2 requests with bodies larger than 1 MiB at once; more are answered with 429.
//
// A socket that is gone from its place is made again within seconds, and open connections go on. If something else
// than the socket of a dead agent has its name, that stays as it is, and the health of the job "socket" is degraded.
// A socket that was inherited belongs to the process that has made it, and is not made again.
package inspect
