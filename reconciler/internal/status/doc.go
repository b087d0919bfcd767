// Package status defines the status of a reconciled row, which is plain data that the row holds
// by value.
package status
