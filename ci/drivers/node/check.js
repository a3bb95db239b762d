// Drives a CQL server with the Node driver: schema, 10,000 rows, paging.
//
//   node check.js HOST PORT
//
// The driver compresses nothing, for it has no compression. Prints `ok` last; any other end is a failure.
// The same rows as the other drivers' programs.

'use strict';

const assert = require('assert');
const cassandra = require('cassandra-driver');
const { BigDecimal, Duration, Integer, LocalDate, LocalTime, Long, TimeUuid, Uuid, InetAddress } =
  cassandra.types;

const ROWS = 10000;
const PAGE_ROWS = 500;
const BUCKETS = 100;
const IN_FLIGHT = 100;
const TYPES = [
  'ascii', 'bigint', 'blob', 'boolean', 'date', 'decimal', 'double', 'duration', 'float', 'inet',
  'int', 'smallint', 'text', 'time', 'timestamp', 'timeuuid', 'tinyint', 'uuid', 'varchar',
  'varint',
];
const DAY_MS = 86400000;

/** The values of row i, one for each of TYPES. */
function row(i) {
  const middle = i - ROWS / 2;
  const address = i % 2 ? `10.0.${Math.floor(i / 256)}.${i % 256}` : `2001:db8::${i.toString(16)}`;
  const bigint = { 0: Long.MIN_VALUE, 1: Long.MAX_VALUE }[i] ?? Long.fromNumber(middle * 1000003);
  const unscaled = BigInt(middle) * 10n ** 10n + 7n;
  const hex = (number, digits) => number.toString(16).padStart(digits, '0');
  const uuid = hex((BigInt(i) << 90n) | (0x4000n << 64n) | (0x8000n << 48n), 32);
  return [
    `ascii-${i}`,
    bigint,
    Buffer.from(Array.from({ length: i % 50 }, (_, k) => (i + k) % 256)),
    i % 2 === 0,
    LocalDate.fromDate(new Date(middle * DAY_MS)),
    new BigDecimal(Integer.fromString(unscaled.toString()), i % 10),
    { 0: -Infinity, 1: -0 }[i] ?? i / 7,
    new Duration(i % 13, i % 31, Long.fromNumber(i * 1000000)),
    i / 4,
    InetAddress.fromString(address),
    middle * 400000,
    middle,
    `tèxt ☃ ${i}`,
    new LocalTime(Long.fromString(String((BigInt(i) * 7919000001n) % 86400000000000n))),
    new Date(middle * 86400123),
    TimeUuid.fromString(`${hex(i, 8)}-abcd-11ee-8001-123456789abc`),
    (i % 256) - 128,
    Uuid.fromString(uuid.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')),
    i % 10 === 9 ? null : 'x'.repeat(i % 300),
    Integer.fromString((BigInt(middle) * 10n ** 25n).toString()),
  ];
}

/** Creates the keyspace and the table, and sees them in the driver's metadata. */
async function create(client) {
  assert(client.metadata.keyspaces.system, 'the driver sees no schema');
  await client.execute('DROP KEYSPACE IF EXISTS driver_node');
  await client.execute(
    "CREATE KEYSPACE driver_node WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
  const columns = TYPES.map((name) => `c_${name} ${name}`).join(', ');
  await client.execute(
    `CREATE TABLE driver_node.everything (bucket int, id bigint, ${columns}, ` +
    'PRIMARY KEY (bucket, id)) WITH CLUSTERING ORDER BY (id DESC)');
  const table = await client.metadata.getTable('driver_node', 'everything');
  assert.strictEqual(table.columns.length, TYPES.length + 2);
  assert.deepStrictEqual(table.clusteringKeys.map((column) => column.name), ['id']);
  const codes = cassandra.types.dataTypes;
  for (const name of TYPES) {
    const code = table.columnsByName[`c_${name}`].type.code;
    assert.strictEqual(code, name === 'varchar' ? codes.text : codes[name], name);
  }
}

/** Writes all rows by one prepared statement, many at a time. */
async function write(client) {
  const names = TYPES.map((name) => `c_${name}`).join(', ');
  const marks = Array(TYPES.length + 2).fill('?').join(', ');
  const insert = `INSERT INTO driver_node.everything (bucket, id, ${names}) VALUES (${marks})`;
  const rows = Array.from({ length: ROWS }, (_, i) => [i % BUCKETS, Long.fromNumber(i), ...row(i)]);
  const options = { prepare: true, concurrencyLevel: IN_FLIGHT };
  const result = await cassandra.concurrent.executeConcurrent(client, insert, rows, options);
  assert.strictEqual(result.errors.length, 0);
}

/** Pages all rows back and checks every value. */
async function read(client) {
  const names = TYPES.map((name) => `c_${name}`).join(', ');
  const select = `SELECT bucket, id, ${names} FROM driver_node.everything`;
  const found = new Set();
  let pageState;
  let pages = 0;
  do {
    const page = await client.execute(select, [], { prepare: true, fetchSize: PAGE_ROWS, pageState });
    for (const came of page.rows) {
      const [bucket, id, ...values] = came.values();
      const i = id.toNumber();
      assert(bucket === i % BUCKETS && !found.has(i), `row ${i}`);
      const told = row(i);
      values.forEach((value, k) => check(`row ${i} ${TYPES[k]}`, value, told[k]));
      found.add(i);
    }
    pageState = page.pageState;
    pages += 1;
  } while (pageState);
  assert.strictEqual(found.size, ROWS);
  assert(pages >= ROWS / PAGE_ROWS, `${pages} pages`);
}

/** Compares a value that came with the value that was written. */
function check(place, came, told) {
  if (told !== null && typeof told.equals === 'function' && !Buffer.isBuffer(told)) {
    assert(told.equals(came), `${place}: ${came}, not ${told}`);
  } else {
    assert.deepStrictEqual(came, told, place);
  }
}

async function main() {
  const [host, port] = process.argv.slice(2);
  const client = new cassandra.Client({
    contactPoints: [`${host}:${port}`],
    localDataCenter: 'datacenter1',
    socketOptions: { readTimeout: 60000 },
  });
  await client.connect();
  await create(client);
  await write(client);
  await read(client);
  await client.execute('DROP KEYSPACE driver_node');
  const version = client.controlConnection.protocolVersion;
  await client.shutdown();
  console.log(`Node cassandra-driver 4.10.0, protocol ${version}`);
  console.log('ok');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
