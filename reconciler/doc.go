// Package reconciler drives a target to what the rows of a table say.
package reconciler
