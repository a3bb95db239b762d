// The type matrix: every CQL type from and into the Go types that gocql has for it. A value is written twice, bound
// and as a literal, and must come back as itself from both, and as the same bytes.
package main

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"net"
	"reflect"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"gopkg.in/inf.v0"
)

// point is a user type as a structure; what is null is nil.
type point struct {
	X *int    `cql:"x"`
	Y *string `cql:"y"`
}

// shape is a user type with others in its collections.
type shape struct {
	Name    string            `cql:"name"`
	Points  []point           `cql:"points"`
	Corners map[string]*point `cql:"corners"`
}

// pair is a tuple as a structure.
type pair struct {
	N int
	S *string
}

// raw is the bytes of a value, whatever its type.
type raw []byte

// UnmarshalCQL keeps the bytes that came; nil is null.
func (r *raw) UnmarshalCQL(_ gocql.TypeInfo, data []byte) error {
	*r = bytes.Clone(data)
	return nil
}

// MarshalCQL sends the bytes as they are.
func (r raw) MarshalCQL(gocql.TypeInfo) ([]byte, error) {
	return r, nil
}

// one is a value of a CQL type: in CQL and in Go.
type one struct {
	cql     string
	literal string
	value   any
}

func pointer[T any](value T) *T { return &value }

func decimal(unscaled int64, scale inf.Scale) *inf.Dec { return inf.NewDec(unscaled, scale) }

func power(base, exponent int64) *big.Int {
	return new(big.Int).Exp(big.NewInt(base), big.NewInt(exponent), nil)
}

func id(text string) gocql.UUID {
	value, err := gocql.ParseUUID(text)
	must(err)
	return value
}

// values are those of the matrix, each type's together.
func values() []one {
	least, most := id("00000000-0000-0000-0000-000000000000"), id("ffffffff-ffff-ffff-ffff-ffffffffffff")
	return append(scalars(), []one{
		{"list<text>", "['b', '', 'b']", []string{"b", "", "b"}},
		{"list<text>", "['ü']", [1]string{"ü"}},
		{"set<bigint>", "{3, -1}", []int64{-1, 3}},
		{"set<bigint>", "{7}", [1]int64{7}},
		{"map<text, inet>", "{'': '::1'}", map[string]net.IP{"": net.ParseIP("::1")}},
		{"map<timeuuid, frozen<list<int>>>", "{50554d6e-29bb-11e5-b345-feff819cdc9f: [1, 2]}",
			map[gocql.UUID][]int{id("50554d6e-29bb-11e5-b345-feff819cdc9f"): {1, 2}}},
		{"frozen<list<double>>", "[]", []float64{}},
		{"frozen<list<double>>", "[1.5, -0.0]", []float64{1.5, math.Copysign(0, -1)}},
		{"frozen<set<uuid>>", "{00000000-0000-0000-0000-000000000000, ffffffff-ffff-ffff-ffff-ffffffffffff}",
			[]gocql.UUID{least, most}},
		{"frozen<map<smallint, boolean>>", "{-32768: false}", map[int16]bool{-32768: false}},
		{"map<text, frozen<list<frozen<set<int>>>>>", "{'k': [{1, 2}, {}], '': []}",
			map[string][][]int{"k": {{1, 2}, {}}, "": {}}},
		{"list<frozen<tuple<int, text>>>", "[(1, 'a'), (-1, null), (0, '')]",
			[]pair{{1, pointer("a")}, {-1, nil}, {0, pointer("")}}},
		{"list<duration>", "[1mo2d3ns]", []gocql.Duration{{Months: 1, Days: 2, Nanoseconds: 3}}},
		{"point", "{x: 1, y: 'a'}", point{pointer(1), pointer("a")}},
		{"point", "{x: null, y: ''}", point{nil, pointer("")}},
		{"frozen<shape>", "{name: 's', points: [{x: 1, y: 'a'}, {x: 2}], corners: {'k': {y: 'ü'}}}",
			shape{"s", []point{{pointer(1), pointer("a")}, {pointer(2), nil}},
				map[string]*point{"k": {nil, pointer("ü")}}}},
		{"frozen<shape>", "{name: '', points: [], corners: {}}", shape{"", []point{}, map[string]*point{}}},
		{"map<int, frozen<point>>", "{1: {x: 5, y: 'z'}}", map[int]point{1: {pointer(5), pointer("z")}}},
		{"vector<float, 3>", "[1, 2.5, -3]", []float32{1, 2.5, -3}},
		{"vector<float, 3>", "[0, 3.4028235E38, 1.4E-45]",
			[3]float32{0, math.MaxFloat32, math.SmallestNonzeroFloat32}},
		{"vector<text, 2>", "['', 'ü☃']", []string{"", "ü☃"}},
		{"vector<frozen<vector<bigint, 2>>, 2>", "[[1, 2], [-9223372036854775808, 9223372036854775807]]",
			[][]int64{{1, 2}, {math.MinInt64, math.MaxInt64}}},
	}...)
}

// scalars are the values of types without parts.
func scalars() []one {
	far := time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC)
	return []one{
		{"ascii", "'plain ~'", "plain ~"},
		{"ascii", "''", []byte{}},
		{"bigint", "-9223372036854775808", int64(math.MinInt64)},
		{"bigint", "9223372036854775807", big.NewInt(math.MaxInt64)},
		{"bigint", "7", "7"},
		{"blob", "0x", []byte{}},
		{"blob", "0x00ff", []byte{0, 255}},
		{"boolean", "true", true},
		{"boolean", "false", false},
		{"date", "'0001-01-02'", time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)},
		{"date", "'9999-12-31'", time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)},
		{"decimal", "1.50", decimal(150, 2)},
		{"decimal", "-1E+40", decimal(-1, -40)},
		{"decimal", "0.00", decimal(0, 2)},
		{"decimal", "-9223372036854775809E-2147483647",
			inf.NewDecBig(new(big.Int).Sub(big.NewInt(math.MinInt64), big.NewInt(1)), math.MaxInt32)},
		{"double", "-Infinity", math.Inf(-1)},
		{"double", "-0.0", math.Copysign(0, -1)},
		{"double", "4.9E-324", math.SmallestNonzeroFloat64},
		{"duration", "1y2mo3w4d5h6m7s8ms9us10ns",
			gocql.Duration{Months: 14, Days: 25, Nanoseconds: 18_367_008_009_010}},
		{"duration", "-2147483647mo2147483647d9223372036854775807ns",
			gocql.Duration{Months: -math.MaxInt32, Days: -math.MaxInt32, Nanoseconds: -math.MaxInt64}},
		{"float", "3.4028235E38", float32(math.MaxFloat32)},
		{"float", "-1.4E-45", float32(-math.SmallestNonzeroFloat32)},
		{"inet", "'10.0.0.1'", net.ParseIP("10.0.0.1").To4()},
		{"inet", "'2001:db8::ffff:1'", net.ParseIP("2001:db8::ffff:1")},
		{"inet", "'::'", "::"},
		{"int", "-2147483648", int(math.MinInt32)},
		{"int", "2147483647", int64(math.MaxInt32)},
		{"smallint", "-32768", int16(math.MinInt16)},
		{"text", "'ünï '' \" ☃ 🚀'", "ünï ' \" ☃ 🚀"},
		{"time", "'23:59:59.999999999'", 24*time.Hour - 1},
		{"time", "'00:00:00'", int64(0)},
		{"timestamp", "'9999-12-31 23:59:59.999+0000'", far},
		{"timestamp", "-9223372036854775808", int64(math.MinInt64)},
		{"timeuuid", "50554d6e-29bb-11e5-b345-feff819cdc9f", id("50554d6e-29bb-11e5-b345-feff819cdc9f")},
		{"tinyint", "-128", int8(math.MinInt8)},
		{"uuid", "ffffffff-ffff-ffff-ffff-ffffffffffff", id("ffffffff-ffff-ffff-ffff-ffffffffffff")},
		{"varint", "0", big.NewInt(0)},
		{"varint", "-128", big.NewInt(-128)},
		{"varint", "128", int64(128)},
		{"varint", power(10, 60).String(), power(10, 60)},
		{"varint", new(big.Int).Neg(power(2, 127)).String(), new(big.Int).Neg(power(2, 127))},
	}
}

// matrix writes every value and reads it back; it says how many they were.
func matrix(session *gocql.Session) int {
	must(session.Query("CREATE TYPE driver_go.point (x int, y text)").Exec())
	must(session.Query("CREATE TYPE driver_go.shape (name text, points frozen<list<frozen<point>>>, " +
		"corners map<text, frozen<point>>)").Exec())
	all := values()
	columns := map[string]string{}
	var declared []string
	for _, it := range all {
		if _, there := columns[it.cql]; !there {
			columns[it.cql] = fmt.Sprintf("c%d", len(columns))
			declared = append(declared, columns[it.cql]+" "+it.cql)
		}
	}
	must(session.Query("CREATE TABLE driver_go.matrix (k int PRIMARY KEY, t tuple<int, text, frozen<list<uuid>>>, " +
		strings.Join(declared, ", ") + ")").Exec())
	for k, it := range all {
		bothWays(session, k, columns[it.cql], it)
	}
	for _, column := range columns {
		nulls(session, column)
	}
	tuples(session)
	refusals(session, columns)
	return len(all)
}

// bothWays writes a value bound and as a literal, and reads both.
func bothWays(session *gocql.Session, k int, column string, it one) {
	insert := "INSERT INTO driver_go.matrix (k, " + column + ") VALUES (?, "
	must(session.Query(insert+"?)", 2*k, it.value).Exec())
	must(session.Query(insert+it.literal+")", 2*k+1).Exec())
	var came [2]raw
	for row := range 2 {
		query := session.Query("SELECT "+column+" FROM driver_go.matrix WHERE k = ?", 2*k+row)
		target := reflect.New(reflect.TypeOf(it.value))
		must(query.Scan(target.Interface()))
		value := target.Elem().Interface()
		check(alike(value, it.value), "%s %s, row %d: %#v, not %#v", it.cql, it.literal, row, value, it.value)
		must(query.Scan(&came[row]))
	}
	empty := reflect.ValueOf(it.value).Kind() == reflect.Slice && reflect.ValueOf(it.value).Len() == 0
	check(bytes.Equal(came[0], came[1]) && (came[0] != nil || empty),
		"%s %s: bound %x, as a literal %x", it.cql, it.literal, came[0], came[1])
}

// alike compares with what same compares with, and negative zeros as bits.
func alike(came, told any) bool {
	switch told := told.(type) {
	case float64:
		return math.Float64bits(told) == math.Float64bits(came.(float64))
	case inf.Dec, big.Int:
		return false
	default:
		return same(came, told)
	}
}

// nulls writes a nil pointer over a column and reads it as a pointer, as a zero and as bytes.
func nulls(session *gocql.Session, column string) {
	must(session.Query("INSERT INTO driver_go.matrix (k, "+column+") VALUES (-1, ?)", (*point)(nil)).Exec())
	row := map[string]any{}
	query := session.Query("SELECT " + column + " FROM driver_go.matrix WHERE k = -1")
	bytes := raw{1}
	must(query.Scan(&bytes))
	check(bytes == nil, "%s: null is %x", column, bytes)
	must(query.MapScan(row))
	value := reflect.ValueOf(row[column])
	empty := !value.IsValid() || value.IsZero() ||
		(value.Kind() == reflect.Slice || value.Kind() == reflect.Map) && value.Len() == 0
	check(empty, "%s: null is %#v", column, row[column])
}

// tuples are bound and scanned part by part: gocql binds none as a whole, unless it is in a collection.
func tuples(session *gocql.Session) {
	ids := []gocql.UUID{id("ffffffff-ffff-ffff-ffff-ffffffffffff")}
	must(session.Query("INSERT INTO driver_go.matrix (k, t) VALUES (-2, (?, ?, ?))", 7, "x", ids).Exec())
	must(session.Query("INSERT INTO driver_go.matrix (k, t) VALUES (-3, (null, '', []))").Exec())
	var n *int
	var s *string
	var list []gocql.UUID
	must(session.Query("SELECT t FROM driver_go.matrix WHERE k = -2").Scan(&n, &s, &list))
	check(n != nil && *n == 7 && s != nil && *s == "x" && reflect.DeepEqual(list, ids), "a tuple: %v %v %v", n, s, list)
	must(session.Query("SELECT t FROM driver_go.matrix WHERE k = -3").Scan(&n, &s, &list))
	check(n == nil && s != nil && *s == "" && len(list) == 0, "a tuple with null: %v %v %v", n, s, list)
}

// refusals are values that a type does not have: by gocql, and by the server where gocql does not look.
func refusals(session *gocql.Session, columns map[string]string) {
	for _, wrong := range []struct {
		cql   string
		value any
		error string
	}{
		{"int", "seven", "can not marshal string"},
		{"smallint", 40_000, "out of range"},
		{"vector<float, 3>", []float32{1, 2}, "expected vector with 3 dimensions, received 2"},
		{"int", raw{1, 2, 3}, "Expected 4 or 0 byte int (3)"},
		{"boolean", raw{1, 2}, "Expected 1 or 0 byte value (2)"},
		{"text", raw{0xff}, "String didn't validate."},
		{"ascii", raw{0x80}, "Invalid byte for ascii: -128"},
		{"inet", raw{1, 2, 3}, "Expected 4 or 16 byte inetaddress; got "},
		{"decimal", raw{1}, "Expected 0 or at least 4 bytes"},
		{"date", raw{1}, "Expected 4 byte long for date (1)"},
		{"time", raw{1}, "Expected 8 byte long for time (1)"},
		{"uuid", raw{1}, "UUID should be 16 or 0 bytes (1)"},
		{"duration", raw{1}, "Expected at least 3 bytes for a duration (1)"},
		{"list<text>", raw{0, 0, 0, 1}, "Not enough bytes to read a"},
		{"vector<float, 3>", raw{0, 0, 0, 0}, "Not enough bytes"},
	} {
		column := columns[wrong.cql]
		err := session.Query("INSERT INTO driver_go.matrix (k, "+column+") VALUES (-4, ?)", wrong.value).Exec()
		check(err != nil && strings.Contains(err.Error(), wrong.error), "%s takes %v: %v", wrong.cql, wrong.value, err)
	}
	var text chan int
	err := session.Query("SELECT k FROM driver_go.matrix WHERE k = 0").Scan(&text)
	check(err != nil && strings.Contains(err.Error(), "can not unmarshal"), "an int is a channel: %v", err)
}
