// Drives a CQL server with gocql 2: schema, 10,000 rows, paging, and the type matrix (matrix.go).
//
//	go run . HOST PORT
//
// Prints `ok` last; any other end is a failure. The same rows as the other drivers' programs.
package main

import (
	"fmt"
	"log"
	"math"
	"math/big"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"gopkg.in/inf.v0"
)

const (
	rows     = 10000
	pageRows = 500
	buckets  = 100
	inFlight = 100
)

var types = []string{
	"ascii", "bigint", "blob", "boolean", "date", "decimal", "double", "duration", "float", "inet",
	"int", "smallint", "text", "time", "timestamp", "timeuuid", "tinyint", "uuid", "varchar",
	"varint",
}

func main() {
	log.SetFlags(0)
	port, err := strconv.Atoi(os.Args[2])
	must(err)
	cluster := gocql.NewCluster(os.Args[1])
	cluster.Port = port
	cluster.Timeout = time.Minute
	cluster.Consistency = gocql.LocalQuorum
	cluster.Compressor = lz4.LZ4Compressor{}
	session, err := cluster.CreateSession()
	must(err)
	create(session)
	write(session)
	read(session)
	count := matrix(session)
	must(session.Query("DROP KEYSPACE driver_go").Exec())
	session.Close()
	fmt.Printf("gocql 2, lz4, %d values of the type matrix\n", count)
	fmt.Println("ok")
}

// columns lists c_ascii, c_bigint and so on, each followed by `suffix` of its type.
func columns(suffix func(string) string) string {
	named := make([]string, len(types))
	for k, name := range types {
		named[k] = "c_" + name + suffix(name)
	}
	return strings.Join(named, ", ")
}

func bare(string) string { return "" }

// create makes the keyspace and the table, and sees them in the driver's metadata.
func create(session *gocql.Session) {
	must(session.Query("DROP KEYSPACE IF EXISTS driver_go").Exec())
	must(session.Query("CREATE KEYSPACE driver_go WITH replication = " +
		"{'class': 'SimpleStrategy', 'replication_factor': 1}").Exec())
	must(session.Query("CREATE TABLE driver_go.everything (bucket int, id bigint, " +
		columns(func(name string) string { return " " + name }) +
		", PRIMARY KEY (bucket, id)) WITH CLUSTERING ORDER BY (id DESC)").Exec())
	keyspace, err := session.KeyspaceMetadata("driver_go")
	must(err)
	table := keyspace.Tables["everything"]
	check(table != nil, "the driver sees no table")
	check(len(table.Columns) == len(types)+2, "%d columns", len(table.Columns))
	check(table.ClusteringColumns[0].Name == "id", "the clustering column is not id")
	for _, name := range types {
		told := strings.Replace(name, "varchar", "text", 1)
		seen := table.Columns["c_"+name].Validator
		check(seen == told, "c_%s is %s", name, seen)
	}
}

// write inserts all rows by one prepared statement, many at a time.
func write(session *gocql.Session) {
	marks := strings.Repeat(", ?", len(types))
	insert := "INSERT INTO driver_go.everything (bucket, id, " + columns(bare) +
		") VALUES (?, ?" + marks + ")"
	var writers sync.WaitGroup
	next := make(chan int64)
	for range inFlight {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for i := range next {
				values := append([]any{int(i % buckets), i}, row(i)...)
				must(session.Query(insert, values...).Exec())
			}
		}()
	}
	for i := range int64(rows) {
		next <- i
	}
	close(next)
	writers.Wait()
}

// read pages all rows back and checks every value.
func read(session *gocql.Session) {
	query := session.Query("SELECT bucket, id, " + columns(bare) + " FROM driver_go.everything")
	found := make(map[int64]bool)
	pages := 0
	var state []byte
	for {
		page := query.PageSize(pageRows).PageState(state).Iter()
		state = page.PageState()
		pages++
		for scanner := page.Scanner(); scanner.Next(); {
			var bucket int
			var i int64
			came := targets()
			must(scanner.Scan(append([]any{&bucket, &i}, came...)...))
			check(int64(bucket) == i%buckets && !found[i], "row %d", i)
			found[i] = true
			for k, told := range row(i) {
				value := reflect.ValueOf(came[k]).Elem().Interface()
				check(alike(value, told), "row %d %s: %v, not %v", i, types[k], value, told)
			}
		}
		must(page.Close())
		if len(state) == 0 {
			break
		}
	}
	check(len(found) == rows, "%d rows came back", len(found))
	check(pages >= rows/pageRows, "%d pages", pages)
}

// targets are pointers that one row can be scanned into.
func targets() []any {
	return []any{
		new(string), new(int64), new([]byte), new(bool), new(time.Time), new(*inf.Dec), new(float64),
		new(gocql.Duration), new(float32), new(net.IP), new(int), new(int16), new(string),
		new(time.Duration), new(time.Time), new(gocql.UUID), new(int8), new(gocql.UUID),
		new(*string), new(*big.Int),
	}
}

// row is the values of row i, one for each of types.
func row(i int64) []any {
	middle := i - rows/2
	bigint := middle * 1000003
	double := float64(i) / 7
	switch i {
	case 0:
		bigint, double = math.MinInt64, math.Inf(-1)
	case 1:
		bigint, double = math.MaxInt64, math.Copysign(0, -1)
	}
	blob := make([]byte, i%50)
	for k := range blob {
		blob[k] = byte(i + int64(k))
	}
	address := fmt.Sprintf("2001:db8::%x", i)
	if i%2 == 1 {
		address = fmt.Sprintf("10.0.%d.%d", i/256, i%256)
	}
	unscaled := new(big.Int).Mul(big.NewInt(middle), big.NewInt(10_000_000_000))
	unscaled.Add(unscaled, big.NewInt(7))
	varint := new(big.Int).Exp(big.NewInt(10), big.NewInt(25), nil)
	varint.Mul(varint, big.NewInt(middle))
	var varchar *string
	if i%10 != 9 {
		text := strings.Repeat("x", int(i%300))
		varchar = &text
	}
	return []any{
		fmt.Sprintf("ascii-%d", i), bigint, blob, i%2 == 0,
		time.UnixMilli(middle * 86_400_000).UTC(), inf.NewDecBig(unscaled, inf.Scale(i%10)), double,
		gocql.Duration{Months: int32(i % 13), Days: int32(i % 31), Nanoseconds: i * 1_000_000},
		float32(i) / 4, net.ParseIP(address), int(middle * 400_000), int16(middle),
		fmt.Sprintf("tèxt ☃ %d", i),
		time.Duration(i * 7_919_000_001 % 86_400_000_000_000),
		time.UnixMilli(middle * 86_400_123).UTC(), timeuuid(i), int8(i%256 - 128), uuid(i), varchar,
		varint,
	}
}

func timeuuid(i int64) gocql.UUID {
	id, err := gocql.ParseUUID(fmt.Sprintf("%08x-abcd-11ee-8001-123456789abc", i))
	must(err)
	return id
}

func uuid(i int64) gocql.UUID {
	number := new(big.Int).Lsh(big.NewInt(i), 90)
	number.Or(number, new(big.Int).Lsh(big.NewInt(0x4000), 64))
	number.Or(number, new(big.Int).Lsh(big.NewInt(0x8000), 48))
	var id gocql.UUID
	number.FillBytes(id[:])
	return id
}

// same compares a value that came with the value that was written.
func same(came, told any) bool {
	switch told := told.(type) {
	case time.Time:
		return told.Equal(came.(time.Time))
	case *inf.Dec:
		came := came.(*inf.Dec)
		return told.Scale() == came.Scale() && told.Cmp(came) == 0
	case *big.Int:
		return told.Cmp(came.(*big.Int)) == 0
	case net.IP:
		return told.Equal(came.(net.IP))
	case []byte:
		return string(told) == string(came.([]byte))
	default:
		return reflect.DeepEqual(came, told)
	}
}

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func check(holds bool, format string, values ...any) {
	if !holds {
		log.Panicf(format, values...)
	}
}
