package nft

import (
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }
