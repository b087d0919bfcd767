// Package dryruncell adds to a hive the comparison of documents with the system: the mode
// `plan -f PATH...` of the command "plan", and the endpoint POST /v1/plan.
//
// If an agent answers at the socket, it is sent the documents and compares them with what it
// sees and has in force. Otherwise the command does so itself: it makes the targets of the
// kinds, as the agent would, but starts nothing. Then [Mode] tells constructors that nothing
// may be written, such as the records of what is ours: see ownership.Config.ReadOnly.
//
// Kinds need do nothing for it: package kindcell contributes what is needed of each.
package dryruncell
