// Package readme holds no code: its test reads the README as a newcomer does, and
// types what it says.
package readme
