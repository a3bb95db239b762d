import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.metadata.schema.TableMetadata;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.CompletionStage;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Drives a CQL server with the Java driver 4: schema, 10,000 rows, paging.
 *
 * <pre>java -cp 'JARS/*' Check.java HOST PORT</pre>
 *
 * Prints `ok` last; any other end is a failure. The same rows as the other drivers' programs.
 */
public final class Check {
  static final int ROWS = 10_000;
  static final int PAGE_ROWS = 500;
  static final int BUCKETS = 100;
  static final int IN_FLIGHT = 100;
  static final List<String> TYPES = List.of(
      "ascii", "bigint", "blob", "boolean", "date", "decimal", "double", "duration", "float",
      "inet", "int", "smallint", "text", "time", "timestamp", "timeuuid", "tinyint", "uuid",
      "varchar", "varint");

  public static void main(String[] arguments) throws Exception {
    DriverConfigLoader config = DriverConfigLoader.programmaticBuilder()
        .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofMinutes(1))
        .withInt(DefaultDriverOption.REQUEST_PAGE_SIZE, PAGE_ROWS)
        .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, "lz4")
        .build();
    try (CqlSession session = CqlSession.builder()
        .addContactPoint(new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1])))
        .withLocalDatacenter("datacenter1")
        .withConfigLoader(config)
        .build()) {
      create(session);
      write(session);
      read(session);
      session.execute("DROP KEYSPACE driver_java");
      System.out.println("Java driver " + CqlSession.OSS_DRIVER_COORDINATES.getVersion()
          + ", protocol " + session.getContext().getProtocolVersion() + ", lz4");
    }
    System.out.println("ok");
  }

  /** Creates the keyspace and the table, and sees them in the driver's metadata. */
  static void create(CqlSession session) {
    session.execute("DROP KEYSPACE IF EXISTS driver_java");
    session.execute("CREATE KEYSPACE driver_java WITH replication = "
        + "{'class': 'SimpleStrategy', 'replication_factor': 1}");
    String columns = TYPES.stream().map(name -> "c_" + name + " " + name)
        .collect(Collectors.joining(", "));
    session.execute("CREATE TABLE driver_java.everything (bucket int, id bigint, " + columns
        + ", PRIMARY KEY (bucket, id)) WITH CLUSTERING ORDER BY (id DESC)");
    TableMetadata table = session.getMetadata().getKeyspace("driver_java")
        .flatMap(keyspace -> keyspace.getTable("everything"))
        .orElseThrow(() -> new AssertionError("the driver sees no table"));
    check(table.getColumns().size() == TYPES.size() + 2, "columns");
    check(table.getClusteringColumns().toString().contains("DESC"), "clustering order");
    for (String name : TYPES) {
      String seen = table.getColumn("c_" + name).orElseThrow().getType().asCql(false, false);
      check(seen.equals(name.equals("varchar") ? "text" : name), "c_" + name + " is " + seen);
    }
  }

  /** Writes all rows by one prepared statement, many at a time. */
  static void write(CqlSession session) throws Exception {
    String marks = Stream.generate(() -> "?").limit(TYPES.size() + 2)
        .collect(Collectors.joining(", "));
    PreparedStatement insert = session.prepare("INSERT INTO driver_java.everything (bucket, id, "
        + names() + ") VALUES (" + marks + ")");
    ArrayDeque<CompletionStage<AsyncResultSet>> inFlight = new ArrayDeque<>();
    for (int i = 0; i < ROWS; i++) {
      List<Object> values = new ArrayList<>(List.of(i % BUCKETS, (long) i));
      values.addAll(row(i));
      inFlight.add(session.executeAsync(insert.bind(values.toArray())));
      if (inFlight.size() == IN_FLIGHT) {
        inFlight.remove().toCompletableFuture().get();
      }
    }
    while (!inFlight.isEmpty()) {
      inFlight.remove().toCompletableFuture().get();
    }
  }

  /** Pages all rows back and checks every value. */
  static void read(CqlSession session) throws Exception {
    PreparedStatement select =
        session.prepare("SELECT bucket, id, " + names() + " FROM driver_java.everything");
    ResultSet result = session.execute(select.bind());
    BitSet found = new BitSet(ROWS);
    for (Row came : result) {
      int i = (int) came.getLong("id");
      check(came.getInt("bucket") == i % BUCKETS && !found.get(i), "row " + i);
      found.set(i);
      List<Object> told = row(i);
      for (int k = 0; k < told.size(); k++) {
        Object value = came.getObject(k + 2);
        check(Objects.equals(value, told.get(k)),
            "row " + i + " " + TYPES.get(k) + ": " + value + ", not " + told.get(k));
      }
    }
    check(found.cardinality() == ROWS, found.cardinality() + " rows came back");
    check(result.getExecutionInfos().size() >= ROWS / PAGE_ROWS, "pages");
  }

  static String names() {
    return TYPES.stream().map(name -> "c_" + name).collect(Collectors.joining(", "));
  }

  /** The values of row i, one for each of TYPES. */
  static List<Object> row(int i) throws Exception {
    int middle = i - ROWS / 2;
    long bigint = i == 0 ? Long.MIN_VALUE : i == 1 ? Long.MAX_VALUE : middle * 1_000_003L;
    double number = i == 0 ? Double.NEGATIVE_INFINITY : i == 1 ? -0.0 : i / 7.0;
    byte[] blob = new byte[i % 50];
    for (int k = 0; k < blob.length; k++) {
      blob[k] = (byte) (i + k);
    }
    String address = i % 2 == 1
        ? "10.0." + i / 256 + "." + i % 256 : "2001:db8::" + Integer.toHexString(i);
    BigInteger unscaled =
        BigInteger.TEN.pow(10).multiply(BigInteger.valueOf(middle)).add(BigInteger.valueOf(7));
    long low = 0x8000L << 48;
    BigInteger high = BigInteger.valueOf(i).shiftLeft(26).or(BigInteger.valueOf(0x4000));
    return Arrays.asList(
        "ascii-" + i, bigint, ByteBuffer.wrap(blob), i % 2 == 0, LocalDate.ofEpochDay(middle),
        new BigDecimal(unscaled, i % 10), number,
        CqlDuration.newInstance(i % 13, i % 31, i * 1_000_000L), i / 4.0f,
        InetAddress.getByName(address), middle * 400_000, (short) middle, "tèxt ☃ " + i,
        LocalTime.ofNanoOfDay(i * 7_919_000_001L % 86_400_000_000_000L),
        Instant.ofEpochMilli(middle * 86_400_123L),
        UUID.fromString(String.format("%08x-abcd-11ee-8001-123456789abc", i)),
        (byte) (i % 256 - 128), new UUID(high.longValue(), low),
        i % 10 == 9 ? null : "x".repeat(i % 300),
        BigInteger.TEN.pow(25).multiply(BigInteger.valueOf(middle)));
  }

  static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }
}
