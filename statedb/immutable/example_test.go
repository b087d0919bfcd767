package immutable_test

import (
	"fmt"

	"github.com/statehive/statehive/statedb/immutable"
)

func ExampleMap() {
	var weights immutable.Map[string, int]
	before := weights.Set("b", 2).Set("a", 1)
	after := before.Set("c", 3).Delete("a")
	fmt.Println(before)
	for name, weight := range after.All() {
		fmt.Println(name, weight)
	}
	// Output:
	// a=1,b=2
	// b 2
	// c 3
}

func ExampleMap_Builder() {
	squares := immutable.Map[int, int]{}.Builder()
	for i := range 1000 {
		squares.Set(i, i*i)
	}
	m := squares.Map()
	for i, square := range m.From(998) {
		fmt.Println(i, square)
	}
	// Output:
	// 998 996004
	// 999 998001
}

func ExampleSet() {
	tags := immutable.SetOf("web", "test")
	more := tags.Add("blue")
	fmt.Println(tags, "and", more, more.Minus(tags))
	// Output: test,web and blue,test,web blue
}

// Service is a row. Its method Equal makes writing the same again a no-op.
type Service struct {
	Name  string
	Ports immutable.Map[string, uint16]
	Tags  immutable.Set[string]
}

func (s Service) Equal(other Service) bool {
	return s.Name == other.Name && s.Ports.Equal(other.Ports) && s.Tags.Equal(other.Tags)
}

func ExampleMap_Equal() {
	a := Service{Name: "web"}
	a.Ports = a.Ports.Set("http", 80).Set("https", 443)
	b := Service{Name: "web"}
	b.Ports = b.Ports.Set("https", 443).Set("http", 80)
	fmt.Println(a.Equal(b))
	// Output: true
}
