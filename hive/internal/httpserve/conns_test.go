package httpserve

import "testing"

func TestConnectionsLeaveRoomForOtherDescriptors(t *testing.T) {
	for descriptors, want := range map[uint64]int{0: 1, 100: 25, 1024: 256, 2000: 500, 1 << 20: 500, ^uint64(0): 500} {
		if got := connsFor(descriptors); got != want {
			t.Errorf("%d of %d descriptors, want %d", got, descriptors, want)
		}
	}
}
