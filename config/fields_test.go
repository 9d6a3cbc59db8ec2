package config

import (
	"net/netip"
	"reflect"
	"testing"
	"time"
)

// TestEveryFieldCounts changes one field of a module after the other. Each change
// has to show in the hash, or a reload would go on giving results of the old
// module, and in the effective configuration, or it would not survive being read
// again. A field that is added to Module and forgotten there is found here.
func TestEveryFieldCounts(t *testing.T) {
	base := func() *Module {
		m := DefaultModule("a")
		m.Congest = DefaultCongest()
		return m
	}
	render := func(m *Module) string {
		y, err := (&Config{Modules: map[string]*Module{m.Name: m}}).YAML()
		if err != nil {
			t.Fatal(err)
		}
		return string(y)
	}
	hash, text := base().Hash(), render(base())
	var walk func(path string, at func(m *Module) reflect.Value)
	n := 0
	walk = func(path string, at func(m *Module) reflect.Value) {
		m := base()
		v := at(m)
		switch v.Interface().(type) {
		case netip.Addr:
			v.Set(reflect.ValueOf(netip.MustParseAddr("192.0.2.1")))
		case time.Duration:
			v.SetInt(v.Int() + int64(time.Millisecond))
		case []float64:
			v.Set(reflect.ValueOf([]float64{0.25}))
		default:
			switch v.Kind() {
			case reflect.Pointer:
				elem := func(m *Module) reflect.Value { return at(m).Elem() }
				for i := range v.Elem().NumField() {
					walk(path+"."+v.Elem().Type().Field(i).Name, func(m *Module) reflect.Value { return elem(m).Field(i) })
				}
				v.SetZero()
			case reflect.Struct:
				for i := range v.NumField() {
					walk(path+"."+v.Type().Field(i).Name, func(m *Module) reflect.Value { return at(m).Field(i) })
				}
				return
			case reflect.Int:
				v.SetInt(v.Int() + 1)
			case reflect.Uint8:
				v.SetUint(v.Uint() + 1)
			case reflect.Float64:
				v.SetFloat(v.Float() + 0.5)
			case reflect.Bool:
				v.SetBool(!v.Bool())
			case reflect.String:
				v.SetString(v.String() + "x")
			default:
				t.Fatalf("%s is a %s, which this test can't change", path, v.Type())
			}
		}
		n++
		if m.Hash() == hash {
			t.Errorf("%s does not show in the hash", path)
		}
		if render(m) == text {
			t.Errorf("%s does not show in the effective configuration", path)
		}
	}
	walk("Module", func(m *Module) reflect.Value { return reflect.ValueOf(m).Elem() })
	if n < 30 {
		t.Errorf("only %d fields were changed", n)
	}
}
