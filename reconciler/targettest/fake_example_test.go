package targettest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/statehive/statehive/reconciler/targettest"
	"github.com/statehive/statehive/statedb"
)

// A fake whose first Update of a key fails halfway.
func ExampleFake() {
	fake := targettest.NewFake(targettest.FakeConfig[File]{
		Key:  func(f File) string { return f.Name },
		Spec: func(f File) string { return f.Text },
	})
	fake.Will(func(op targettest.Operation) targettest.Fault {
		if op.Kind == targettest.Update && op.Nth == 1 {
			return targettest.Fault{Effect: targettest.Half, Err: errors.New("disk full")}
		}
		return targettest.Fault{}
	})

	ctx, txn := context.Background(), statedb.New().ReadTxn()
	fmt.Println(fake.Init(ctx))
	for range 2 {
		_, err := fake.Update(ctx, txn, File{"a", "one"})
		fmt.Println(err, fake.State())
	}
	for _, op := range fake.Log() {
		fmt.Printf("%v: %s\n", op, op.Outcome)
	}
	// Output:
	// <nil>
	// disk full map[a:half-made]
	// <nil> map[a:one]
	// init: done
	// update a=one: disk full
	// update a=one: changed
}
