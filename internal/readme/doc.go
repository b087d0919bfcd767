// Package readme holds no code: its tests read the README and the guide to the hive
// as a newcomer does, and type what they say.
package readme
