// Package readme has no code. Its tests follow the README and the guide to the hive
// as a newcomer does, and run the commands and code in them.
package readme
