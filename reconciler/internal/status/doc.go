// Package status has the status of a reconciled row: plain data that a row carries by value.
package status
