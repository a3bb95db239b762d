package models;

import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.MappedAsyncPagingIterable;
import com.datastax.oss.driver.api.core.PagingIterable;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchType;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.data.CqlVector;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.type.DataTypes;
import com.datastax.oss.driver.api.core.type.TupleType;
import com.datastax.oss.driver.api.mapper.annotations.ClusteringColumn;
import com.datastax.oss.driver.api.mapper.annotations.Computed;
import com.datastax.oss.driver.api.mapper.annotations.CqlName;
import com.datastax.oss.driver.api.mapper.annotations.Dao;
import com.datastax.oss.driver.api.mapper.annotations.DaoFactory;
import com.datastax.oss.driver.api.mapper.annotations.DaoKeyspace;
import com.datastax.oss.driver.api.mapper.annotations.DefaultNullSavingStrategy;
import com.datastax.oss.driver.api.mapper.annotations.Delete;
import com.datastax.oss.driver.api.mapper.annotations.Entity;
import com.datastax.oss.driver.api.mapper.annotations.GetEntity;
import com.datastax.oss.driver.api.mapper.annotations.Insert;
import com.datastax.oss.driver.api.mapper.annotations.Mapper;
import com.datastax.oss.driver.api.mapper.annotations.PartitionKey;
import com.datastax.oss.driver.api.mapper.annotations.PropertyStrategy;
import com.datastax.oss.driver.api.mapper.annotations.Query;
import com.datastax.oss.driver.api.mapper.annotations.Select;
import com.datastax.oss.driver.api.mapper.annotations.Update;
import com.datastax.oss.driver.api.mapper.entity.naming.GetterStyle;
import com.datastax.oss.driver.api.mapper.entity.saving.NullSavingStrategy;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletionStage;

/**
 * Drives a CQL server with the Java driver's object mapper: entities with every type, nested user types, nulls that are
 * saved and nulls that are not, pages, updates and deletions by entity and by condition, batches.
 *
 * <pre>java -cp 'JARS/*:CLASSES' models.Models HOST PORT</pre>
 *
 * Prints `ok` last; any other end is a failure.
 */
public final class Models {
  static final int PAGE_ROWS = 7;
  static final int ROWS = 100;
  static final TupleType TUPLE =
      DataTypes.tupleOf(DataTypes.INT, DataTypes.TEXT, DataTypes.frozenListOf(DataTypes.UUID));

  /** A user type in a user type. */
  @Entity
  @PropertyStrategy(mutable = false, getterStyle = GetterStyle.FLUENT)
  public record Point(Integer x, String y) {}

  /** A user type with collections of another. */
  @Entity
  @PropertyStrategy(mutable = false, getterStyle = GetterStyle.FLUENT)
  public record Shape(String name, List<Point> points, Map<String, Point> corners) {}

  /** A column of every type. */
  @Entity
  @CqlName("every")
  @PropertyStrategy(mutable = false, getterStyle = GetterStyle.FLUENT)
  public record Every(
      @PartitionKey int id, @CqlName("\"an ASCII\"") String ascii, Long aBigint, ByteBuffer aBlob, Boolean aBoolean,
      LocalDate aDate, BigDecimal aDecimal, Double aDouble, CqlDuration aDuration, Float aFloat, InetAddress aInet,
      Integer aInt, Short aSmallint, String aText, LocalTime aTime, Instant aTimestamp, UUID aTimeuuid, Byte aTinyint,
      UUID aUuid, BigInteger aVarint, List<String> aList, Set<InetAddress> aSet, Map<LocalDate, BigDecimal> aMap,
      Map<String, List<Set<Integer>>> aNest, TupleValue aTuple, CqlVector<Float> aVector, Shape aType,
      List<Point> aTypes) {}

  /** Partitions of rows with a static column. */
  @Entity
  @CqlName("log")
  @PropertyStrategy(mutable = false, getterStyle = GetterStyle.FLUENT)
  public record Log(
      @PartitionKey(1) String day, @PartitionKey(2) int part, @ClusteringColumn(1) int at, @ClusteringColumn(2) int seq,
      String owner, String text, Integer level, Set<String> tags) {}

  /** What a row of the log has besides its columns. */
  @Entity
  @CqlName("log")
  @PropertyStrategy(mutable = false, getterStyle = GetterStyle.FLUENT)
  public record LogTimes(
      @PartitionKey(1) String day, @PartitionKey(2) int part, @ClusteringColumn(1) int at, @ClusteringColumn(2) int seq,
      @Computed("writetime(text)") long written, @Computed("ttl(text)") Integer left) {}

  /** Statements about rows with every type. */
  @Dao
  @DefaultNullSavingStrategy(NullSavingStrategy.DO_NOT_SET)
  public interface EveryDao {
    @Insert
    void save(Every row);

    @Insert(nullSavingStrategy = NullSavingStrategy.SET_TO_NULL)
    void saveNulls(Every row);

    @Update
    void update(Every row);

    @Select
    Every find(int id);

    @Select
    CompletionStage<Every> findLater(int id);

    @Select
    PagingIterable<Every> all();

    @Delete(entityClass = Every.class)
    void delete(int id);
  }

  /** Statements about the log. */
  @Dao
  @DefaultNullSavingStrategy(NullSavingStrategy.DO_NOT_SET)
  public interface LogDao {
    @Insert
    void save(Log row);

    @Insert(ttl = ":ttl", timestamp = ":written")
    void save(Log row, @CqlName("ttl") int ttl, @CqlName("written") long written);

    @Insert
    BoundStatement statement(Log row);

    @Select
    Log find(String day, int part, int at, int seq);

    @Select
    LogTimes times(String day, int part, int at, int seq);

    @Select
    PagingIterable<Log> partition(String day, int part);

    @Select
    CompletionStage<MappedAsyncPagingIterable<Log>> partitionLater(String day, int part);

    @Select(customWhereClause = "day = :day AND part = :part AND at >= :low", orderBy = {"at ASC", "seq DESC"},
        limit = ":n")
    PagingIterable<Log> from(@CqlName("day") String day, @CqlName("part") int part, @CqlName("low") int low,
        @CqlName("n") int n);

    @Select(customWhereClause = "tags CONTAINS :tag", allowFiltering = true, perPartitionLimit = "2")
    PagingIterable<Log> tagged(@CqlName("tag") String tag);

    @Update
    void update(Log row);

    @Update(customWhereClause = "day = :day AND part = :part AND at = :at AND seq IN (:low, :high)")
    void updateTwo(Log row, @CqlName("day") String day, @CqlName("part") int part, @CqlName("at") int at,
        @CqlName("low") int low, @CqlName("high") int high);

    @Delete
    void delete(Log row);

    @Delete(entityClass = Log.class, customWhereClause = "day = :day AND part = :part AND at > :at")
    void deleteAfter(@CqlName("day") String day, @CqlName("part") int part, @CqlName("at") int at);

    @Query("SELECT count(*) FROM ${keyspaceId}.log WHERE day = :day AND part = :part")
    long count(@CqlName("day") String day, @CqlName("part") int part);

    @Query("SELECT at, max(seq) AS most FROM ${keyspaceId}.log WHERE day = :day AND part = :part GROUP BY at")
    ResultSet most(@CqlName("day") String day, @CqlName("part") int part);

    @Query("UPDATE ${keyspaceId}.log SET owner = :owner WHERE day = :day AND part = :part")
    void own(@CqlName("owner") String owner, @CqlName("day") String day, @CqlName("part") int part);

    @GetEntity
    Log of(Row row);
  }

  /** Conditional statements about the log, which are prepared when this is made. */
  @Dao
  @DefaultNullSavingStrategy(NullSavingStrategy.DO_NOT_SET)
  public interface ConditionalDao {
    @Insert(ifNotExists = true)
    boolean saveIfNew(Log row);

    @Update(customIfClause = "level = :level")
    boolean updateIf(Log row, @CqlName("level") int level);

    @Delete(ifExists = true)
    boolean deleteIfThere(Log row);
  }

  /** Makes the three. */
  @Mapper
  public interface Access {
    @DaoFactory
    EveryDao every(@DaoKeyspace CqlIdentifier keyspace);

    @DaoFactory
    LogDao log(@DaoKeyspace CqlIdentifier keyspace);

    @DaoFactory
    ConditionalDao conditional(@DaoKeyspace CqlIdentifier keyspace);
  }

  public static void main(String[] arguments) throws Exception {
    DriverConfigLoader config = DriverConfigLoader.programmaticBuilder()
        .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofMinutes(1))
        .withInt(DefaultDriverOption.REQUEST_PAGE_SIZE, PAGE_ROWS)
        .build();
    try (CqlSession session = CqlSession.builder()
        .addContactPoint(new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1])))
        .withLocalDatacenter("datacenter1")
        .withConfigLoader(config)
        .build()) {
      create(session);
      // It compares the entities with the tables that the driver sees.
      Access models = new Models_AccessBuilder(session).build();
      CqlIdentifier keyspace = CqlIdentifier.fromCql("driver_java_models");
      everyType(models.every(keyspace));
      LogDao log = models.log(keyspace);
      reads(log);
      writes(session, log);
      String done = conditional(models, keyspace);
      session.execute("DROP KEYSPACE driver_java_models");
      System.out.println("Java object mapper " + CqlSession.OSS_DRIVER_COORDINATES.getVersion() + ", " + done);
    }
    System.out.println("ok");
  }

  static void create(CqlSession session) {
    session.execute("DROP KEYSPACE IF EXISTS driver_java_models");
    session.execute("CREATE KEYSPACE driver_java_models WITH replication = "
        + "{'class': 'SimpleStrategy', 'replication_factor': 1}");
    session.execute("CREATE TYPE driver_java_models.point (x int, y text)");
    session.execute("CREATE TYPE driver_java_models.shape (name text, points frozen<list<frozen<point>>>, "
        + "corners map<text, frozen<point>>)");
    session.execute("CREATE TABLE driver_java_models.every (id int PRIMARY KEY, \"an ASCII\" ascii, a_bigint bigint, "
        + "a_blob blob, a_boolean boolean, a_date date, a_decimal decimal, a_double double, a_duration duration, "
        + "a_float float, a_inet inet, a_int int, a_smallint smallint, a_text text, a_time time, "
        + "a_timestamp timestamp, a_timeuuid timeuuid, a_tinyint tinyint, a_uuid uuid, a_varint varint, "
        + "a_list list<text>, a_set set<inet>, a_map map<date, decimal>, "
        + "a_nest map<text, frozen<list<frozen<set<int>>>>>, a_tuple tuple<int, text, frozen<list<uuid>>>, "
        + "a_vector vector<float, 3>, a_type frozen<shape>, a_types list<frozen<point>>)");
    session.execute("CREATE TABLE driver_java_models.log (day text, part int, at int, seq int, owner text static, "
        + "text text, level int, tags set<text>, PRIMARY KEY ((day, part), at, seq)) "
        + "WITH CLUSTERING ORDER BY (at DESC, seq ASC)");
  }

  /** Rows of every type come back as they were; nulls are saved or left out. */
  static void everyType(EveryDao dao) throws Exception {
    UUID least = new UUID(0, 0);
    UUID most = new UUID(-1, -1);
    UUID time = UUID.fromString("50554d6e-29bb-11e5-b345-feff819cdc9f");
    Every plain = new Every(
        0, "plain ~", 1L << 62, bytes(0, 255), true, LocalDate.of(2026, 1, 2), new BigDecimal("1.50"), 0.1,
        CqlDuration.newInstance(1, 2, 3), 0.5f, InetAddress.getByName("10.0.0.1"), 7, (short) -7, "tèxt ' ☃ 🚀",
        LocalTime.of(1, 2, 3, 4005006), Instant.parse("2026-01-02T03:04:05.006Z"), time, (byte) 7, new UUID(5, 6),
        BigInteger.TEN.pow(40), List.of("b", "", "b"),
        Set.of(InetAddress.getByName("10.0.0.1"), InetAddress.getByName("2001:db8::1")),
        Map.of(LocalDate.of(1970, 1, 1), new BigDecimal("-1E+10"), LocalDate.of(1, 1, 1), new BigDecimal("0.00")),
        Map.of("k", List.of(Set.of(1, 2), Set.of()), "", List.of()), TUPLE.newValue(1, "x", List.of(least, most)),
        CqlVector.newInstance(1f, 2.5f, -0f),
        new Shape("s", List.of(new Point(1, "a"), new Point(null, "")), Map.of("k", new Point(-1, null))),
        List.of(new Point(2, "ü")));
    Every low = new Every(
        1, "", Long.MIN_VALUE, bytes(), false, LocalDate.of(-5877641, 6, 23), new BigDecimal("-1E-2147483647"),
        Double.NEGATIVE_INFINITY, CqlDuration.newInstance(-Integer.MAX_VALUE, -1, -Long.MAX_VALUE), Float.MIN_VALUE,
        InetAddress.getByName("::"), Integer.MIN_VALUE, Short.MIN_VALUE, "", LocalTime.MIN,
        Instant.ofEpochMilli(Long.MIN_VALUE), UUID.fromString("00000000-0000-1000-8080-808080808080"), Byte.MIN_VALUE,
        least, BigInteger.TWO.pow(127).negate().subtract(BigInteger.ONE), List.of(), Set.of(), Map.of(), Map.of(),
        TUPLE.newValue(null, null, List.of()), CqlVector.newInstance(0f, 0f, 0f), new Shape(null, List.of(), Map.of()),
        List.of());
    Every high = new Every(
        2, "z".repeat(1000), Long.MAX_VALUE, ByteBuffer.wrap(new byte[70_000]), true, LocalDate.of(5881580, 7, 11),
        new BigDecimal("9".repeat(60) + "E+2147480000"), Double.MAX_VALUE,
        CqlDuration.newInstance(Integer.MAX_VALUE, 1, Long.MAX_VALUE), Float.NaN,
        InetAddress.getByName("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), Integer.MAX_VALUE, Short.MAX_VALUE,
        "日".repeat(1000), LocalTime.MAX, Instant.ofEpochMilli(Long.MAX_VALUE),
        UUID.fromString("ffffffff-ffff-1fff-7f7f-7f7f7f7f7f7f"), Byte.MAX_VALUE, most, BigInteger.TWO.pow(2000),
        List.of("x".repeat(5000)), Set.of(InetAddress.getByName("0.0.0.0")), Map.of(), Map.of(),
        TUPLE.newValue(Integer.MAX_VALUE, "日", List.of(most)), CqlVector.newInstance(Float.MAX_VALUE, -1f, 1f),
        new Shape("", List.of(), Map.of()), List.of());
    Every nulls = new Every(
        3, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
        null, null, null, null, null, null, null, null, null);
    // A collection that is null reads as an empty one.
    Every read = new Every(
        3, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
        null, List.of(), Set.of(), Map.of(), Map.of(), null, null, null, List.of());
    for (Every row : List.of(plain, low, high, nulls)) {
      dao.save(row);
      same(row == nulls ? read : row, dao.find(row.id()), "row " + row.id());
      same(row == nulls ? read : row, dao.findLater(row.id()).toCompletableFuture().get(), "row " + row.id());
    }
    check(dao.find(9) == null, "a row that is not there");
    same(4, dao.all().all().size(), "rows");
    // Nulls that are not set change nothing; nulls that are set delete.
    Every keyOnly = withId(nulls, 0);
    dao.save(keyOnly);
    same(plain, dao.find(0), "after nulls that were not set");
    dao.update(withId(low, 0));
    same(withId(low, 0), dao.find(0), "after an update");
    dao.saveNulls(keyOnly);
    same(withId(read, 0), dao.find(0), "after nulls that were set");
    dao.delete(0);
    check(dao.find(0) == null, "a deleted row is there");
  }

  static Every withId(Every row, int id) {
    return new Every(
        id, row.ascii, row.aBigint, row.aBlob, row.aBoolean, row.aDate, row.aDecimal, row.aDouble, row.aDuration,
        row.aFloat, row.aInet, row.aInt, row.aSmallint, row.aText, row.aTime, row.aTimestamp, row.aTimeuuid,
        row.aTinyint, row.aUuid, row.aVarint, row.aList, row.aSet, row.aMap, row.aNest, row.aTuple, row.aVector,
        row.aType, row.aTypes);
  }

  static Log log(String day, int at, int seq, String text) {
    return new Log(day, 0, at, seq, "all", text, seq, Set.of("t" + seq % 3));
  }

  /** Row `i` of a hundred, in the order of the table. */
  static Log hundred(int i) {
    return log("many", 9 - i / 10, i % 10, "row " + i);
  }

  /** A partition in pages, backwards, filtered, grouped. */
  static void reads(LogDao dao) throws Exception {
    List<Log> told = new ArrayList<>();
    for (int i = 0; i < ROWS; i++) {
      told.add(hundred(i));
      dao.save(hundred((i * 37) % ROWS));
    }
    PagingIterable<Log> pages = dao.partition("many", 0);
    check(pages.getAvailableWithoutFetching() == PAGE_ROWS && !pages.isFullyFetched(), "the first page");
    same(told, pages.all(), "a partition");
    check(pages.getExecutionInfos().size() >= ROWS / PAGE_ROWS, "pages");
    List<Log> later = new ArrayList<>();
    MappedAsyncPagingIterable<Log> page = dao.partitionLater("many", 0).toCompletableFuture().get();
    page.currentPage().forEach(later::add);
    while (page.hasMorePages()) {
      page = page.fetchNextPage().toCompletableFuture().get();
      page.currentPage().forEach(later::add);
    }
    same(told, later, "a partition, later");
    List<Log> backwards = new ArrayList<>(told.stream().filter(row -> row.at() >= 5).toList());
    Collections.reverse(backwards);
    same(backwards.subList(0, 12), dao.from("many", 0, 5, 12).all(), "backwards from 5");
    same(told.stream().filter(row -> row.tags().contains("t2")).limit(2).toList(), dao.tagged("t2").all(), "tagged");
    same(100L, dao.count("many", 0), "count");
    List<String> groups = dao.most("many", 0).map(row -> row.getInt("at") + "-" + row.getInt("most")).all();
    same(List.of("9-9", "8-9", "7-9", "6-9", "5-9", "4-9", "3-9", "2-9", "1-9", "0-9"), groups, "groups");
  }

  /** Times, partial updates, batches, deletions. */
  static void writes(CqlSession session, LogDao dao) {
    long written = 1_700_000_000_000_000L;
    dao.save(log("times", 1, 1, "old"), 5000, written);
    LogTimes times = dao.times("times", 0, 1, 1);
    same(written, times.written(), "a time of writing");
    check(times.left() > 4900 && times.left() <= 5000, "a time to live: " + times.left());
    dao.save(log("times", 1, 1, "older"), 5000, written - 1);
    same("old", dao.find("times", 0, 1, 1).text(), "an older write");
    dao.save(new Log("times", 0, 1, 1, null, "new", null, null));
    same(new Log("times", 0, 1, 1, "all", "new", 1, Set.of("t1")), dao.find("times", 0, 1, 1), "part of a row");
    check(dao.times("times", 0, 1, 1).left() == null, "a time to live after a write without");
    dao.update(new Log("times", 0, 2, 2, null, "by update", null, Set.of()));
    dao.own("other", "times", 0);
    same(new Log("times", 0, 2, 2, "other", "by update", null, Set.of()), dao.find("times", 0, 2, 2), "by update");
    dao.updateTwo(new Log(null, 0, 0, 0, null, "two", 5, null), "many", 0, 3, 4, 6);
    for (int seq = 3; seq < 8; seq++) {
      Log row = dao.find("many", 0, 3, seq);
      check(row.text().equals("two") == (seq == 4 || seq == 6), "row " + row);
    }
    BatchStatement batch = BatchStatement.newInstance(
        BatchType.LOGGED, dao.statement(log("batch", 1, 1, "a")), dao.statement(log("batch", 2, 2, "b")));
    session.execute(batch);
    ResultSet rows = session.execute("SELECT * FROM driver_java_models.log WHERE day = 'batch' AND part = 0");
    same(List.of(log("batch", 2, 2, "b"), log("batch", 1, 1, "a")), rows.map(dao::of).all(), "a batch");
    dao.delete(log("batch", 2, 2, null));
    check(dao.find("batch", 0, 2, 2) == null, "a deleted row is there");
    dao.deleteAfter("many", 0, 6);
    same(70L, dao.count("many", 0), "count after a deletion of a range");
  }

  /** Writes with a condition: done as they should be, or refused by name. */
  static String conditional(Access models, CqlIdentifier keyspace) {
    ConditionalDao dao;
    try {
      dao = models.conditional(keyspace);
    } catch (InvalidQueryException refusal) {
      String said = refusal.getMessage();
      check(said.contains("(IF ...) are not supported"), said);
      return "conditional writes refused";
    }
    LogDao log = models.log(keyspace);
    check(dao.saveIfNew(log("lwt", 1, 1, "first")), "a new row is refused");
    check(!dao.saveIfNew(log("lwt", 1, 1, "second")), "an old row is new");
    check(!dao.updateIf(log("lwt", 1, 1, "third"), 2), "a condition that does not hold");
    same(log("lwt", 1, 1, "first"), log.find("lwt", 0, 1, 1), "a row that conditions left alone");
    check(dao.updateIf(log("lwt", 1, 1, "fourth"), 1), "a condition that holds");
    same(log("lwt", 1, 1, "fourth"), log.find("lwt", 0, 1, 1), "a row whose condition held");
    check(dao.deleteIfThere(log("lwt", 1, 1, null)), "a row that is there");
    check(!dao.deleteIfThere(log("lwt", 1, 1, null)), "a row that is not there any more");
    return "conditional writes";
  }

  static ByteBuffer bytes(int... values) {
    ByteBuffer buffer = ByteBuffer.allocate(values.length);
    for (int value : values) {
      buffer.put((byte) value);
    }
    return buffer.flip();
  }

  static void same(Object told, Object came, String what) {
    check(Objects.equals(told, came), what + ": " + came + ", not " + told);
  }

  static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }
}
