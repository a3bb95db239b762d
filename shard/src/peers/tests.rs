//! Credits, lines and ends of requests between two cores.
//!
//! Two `Peers` are joined by a real mesh with few slots, in one thread: a pass of each receives, answers with the
//! number of the question, and publishes. So a test says which requests are with the peer, which wait, and in which
//! order they come.
//!
//! What is tested: requests beyond the credits wait in order; reads, scans, lookups, ends and orders have credits of
//! their own, so that none keeps the others waiting; an end that waits until its read was answered is not sent; more
//! waiting requests than the limit are refused; a write of several parts says what became of all.
//!
//! Not here: rings and bells (`mailbox.rs`), what requests ask for (`router.rs`).

use super::*;
use crate::mailbox::mesh;

struct Numbers;

impl Protocol for Numbers {
    type Ask = u32;
    type Answer = u32;

    fn ask_bytes(_: &u32) -> usize {
        1000
    }
}

/// Two cores, of which each may have two general requests and two reads with the other, and one of each other line.
fn pair() -> [Peers<Numbers>; 2] {
    pair_of(1 << 30)
}

/// The same, with so many bytes for what waits.
fn pair_of(queued_bytes_max: u64) -> [Peers<Numbers>; 2] {
    let ports = mesh(2).expect("descriptors for two bells");
    let peers = |port| Peers::new(port, 2, 18, queued_bytes_max);
    let peers: Vec<_> = ports.into_iter().map(peers).collect();
    peers.try_into().ok().expect("there are two")
}

fn ask(peers: &Peers<Numbers>, number: u32) {
    peers.send(ShardId::new(1), Waiting::Caller(number), Request::Service(number));
}

/// Takes what has come: the questions, answered with their numbers, and the answers.
fn pass(peers: &Peers<Numbers>) -> Vec<u32> {
    let mut came = Vec::new();
    let mut askers = Vec::new();
    let take = |received| match received {
        Received::Question(asker, Request::Service(number)) => askers.push((asker, number)),
        Received::Answer(Waiting::Caller(number), Reply::Service(answer)) => {
            assert_eq!(number, answer, "the answer to this question");
            came.push(number);
        }
        _ => panic!("only the layer above asks"),
    };
    peers.receive(take, || false);
    for (asker, number) in askers {
        peers.reply(asker, Reply::Service(number));
        came.push(number);
    }
    peers.publish();
    came
}

/// Before: with more requests than slots the rest were refused, however soon there would have been space.
#[test]
fn requests_beyond_the_slots_wait_and_keep_their_order() {
    let [here, there] = pair();
    (0..7).for_each(|number| ask(&here, number));
    here.publish();
    let mut rounds = Vec::new();
    for _ in 0..4 {
        rounds.push(pass(&there));
        assert_eq!(Some(&pass(&here)), rounds.last(), "all that was asked is answered");
    }
    assert_eq!(rounds, [vec![0, 1], vec![2, 3], vec![4, 5], vec![6]]);
    assert_eq!(here.to.borrow()[1][Line::Reads as usize].credits, 2, "all credits are back");
}

/// What has come, unanswered: the numbers of reads and, negative, of reads that are ended; and who asks.
fn reads(peers: &Peers<Numbers>) -> (Vec<i64>, Vec<Asker>) {
    let (mut came, mut askers) = (Vec::new(), Vec::new());
    let take = |received| match received {
        Received::Question(asker, Request::Read(command, _)) => {
            came.push(i64::from(command.now_s));
            askers.push(asker);
        }
        Received::Question(asker, Request::EndRead(id)) => {
            came.push(-1 - i64::from(id));
            askers.push(asker);
        }
        Received::Question(asker, Request::Service(_)) => askers.push(asker),
        Received::Answer(Waiting::Task(Line::Scans, slot), reply) => slot.put(reply),
        Received::Answer(Waiting::End(_) | Waiting::Caller(_), _) => {}
        _ => panic!("nothing else is asked"),
    };
    peers.receive(take, || false);
    (came, askers)
}

/// Asks for a scan.
fn read(peers: &Peers<Numbers>, number: u32) -> (u32, Rc<Slot<u32>>) {
    let slot = Slot::new();
    (send_read(peers, number, Waiting::Task(Line::Scans, slot.clone())), slot)
}

fn send_read(peers: &Peers<Numbers>, number: u32, waiting: Waiting<u32>) -> u32 {
    let command = model::ReadCommand {
        table: model::TableId(uuid::Uuid::nil()),
        partitions: model::read::Partitions::Range(model::TokenRange::ALL),
        slices: Vec::new(),
        reversed: false,
        static_alone: false,
        distinct: false,
        filters: Vec::new(),
        lookups: Vec::new(),
        nearest: None,
        limits: model::read::Limits::none(1),
        resume: None,
        now_s: number,
    };
    peers.send(ShardId::new(1), waiting, Request::Read(Box::new(command), None))
}

/// Before: reads of ranges took all credits, so that reads of a row waited for the end of scans, and what ends a
/// scan waited behind them for a credit that only the end of a scan gives back.
#[test]
fn an_end_gets_through_when_all_credits_are_taken_and_scans_leave_some_to_others() {
    let [here, there] = pair();
    let scans: Vec<_> = (0..3).map(|number| read(&here, number)).collect();
    (0..9).for_each(|number| ask(&here, number));
    here.publish();
    let (came, scan_and_others) = reads(&there);
    assert_eq!((came, scan_and_others.len()), (vec![0], 3), "one scan, and two other requests");
    for (id, slot) in [&scans[0], &scans[1]] {
        here.no_longer_wanted(ShardId::new(1), *id, slot.clone());
    }
    here.publish();
    let (came, end) = reads(&there);
    assert_eq!(came, [-1 - i64::from(scans[0].0)], "the one that is there is ended");
    scan_and_others.into_iter().take(1).chain(end).for_each(|asker| there.peer_done(asker));
    there.publish();
    reads(&here);
    here.publish();
    assert_eq!(reads(&there).0, [2], "the one for which none waits is not sent");
    assert_eq!(here.to.borrow()[1][Line::Ends as usize].credits, 1);
}

/// What has come, unanswered.
fn requests(peers: &Peers<Numbers>) -> Vec<Request<u32>> {
    let mut came = Vec::new();
    let take = |received| match received {
        Received::Question(_asker, request) => came.push(request),
        Received::Answer(..) => panic!("nothing is answered"),
    };
    peers.receive(take, || false);
    came
}

/// Before: a step of a TRUNCATE waited for a credit that writes had, which waited for its end.
#[test]
fn a_step_of_what_writes_wait_for_gets_through_when_all_credits_are_taken() {
    let [here, there] = pair();
    (0..5).for_each(|number| ask(&here, number));
    let order = Waiting::Task(Line::Orders, Slot::new());
    here.send(ShardId::new(1), order, Request::Truncate(model::TableId(uuid::Uuid::nil())));
    here.publish();
    let came = requests(&there);
    assert!(
        matches!(came[..], [Request::Service(0), Request::Service(1), Request::Truncate(_)]),
        "{came:?}"
    );
}

/// Before: writes that waited for the one before them in their partition had all credits, and reads of all tables
/// waited for one.
#[test]
fn a_read_gets_through_when_writes_have_taken_all_credits() {
    let [here, there] = pair();
    for _ in 0..5 {
        let writer = Waiting::Write(Ticket::Unattended);
        here.send(ShardId::new(1), writer, Request::Apply(Box::default()));
    }
    ask(&here, 7);
    here.publish();
    let came = requests(&there);
    assert!(
        matches!(came[..], [Request::Apply(_), Request::Apply(_), Request::Service(7)]),
        "{came:?}"
    );
}

/// Before: reads by an index waited in the line of scans.
#[test]
fn a_read_by_an_index_waits_for_no_scan() {
    let [here, there] = pair();
    (0..3).for_each(|number| drop(read(&here, number)));
    for number in 7..9 {
        send_read(&here, number, Waiting::Task(Line::Lookups, Slot::new()));
    }
    here.publish();
    assert_eq!(reads(&there).0, [0, 7], "one scan, and one read by an index");
}

/// What ends a read may wait for a credit itself: by then the read's number may be another's.
#[test]
fn an_end_that_waited_until_its_read_was_answered_is_not_sent() {
    let [here, there] = pair();
    // One credit for scans and one for ends: the second end waits.
    let first = read(&here, 0);
    here.publish();
    let (_, scan) = reads(&there);
    here.send(ShardId::new(1), Waiting::End(None), Request::Service(0));
    here.no_longer_wanted(ShardId::new(1), first.0, first.1.clone());
    here.publish();
    let (came, end) = reads(&there);
    assert!(came.is_empty(), "the end of the scan waits");
    scan.into_iter().for_each(|asker| there.peer_done(asker));
    there.publish();
    reads(&here);
    let second = read(&here, 1);
    assert_eq!(second.0, first.0, "a number is used again");
    end.into_iter().for_each(|asker| there.peer_done(asker));
    there.publish();
    reads(&here);
    here.publish();
    assert_eq!(reads(&there).0, [1], "and its read is not ended");
}

impl Peers<Numbers> {
    fn peer_done(&self, asker: Asker) {
        self.reply(asker, Reply::Done(Ok(())));
    }
}

#[test]
fn no_more_requests_wait_for_a_peer_than_the_limit() {
    let [here, there] = pair();
    for number in 0..PEER_QUEUE_REQUESTS_MAX as u32 + 2 {
        assert_eq!(here.check_place(Line::Reads, ShardId::new(1), 1000), Ok(()));
        ask(&here, number);
    }
    let full = Error::Overloaded("requests to another core");
    assert_eq!(here.check_place(Line::Reads, ShardId::new(1), 1000), Err(full));
    ask(&here, 0);
    here.publish();
    pass(&there);
    pass(&here);
    assert_eq!(here.check_place(Line::Reads, ShardId::new(1), 1000), Ok(()), "two were answered");
}

/// Before: writes of 8 MiB whose clients were told of their time-outs, or were gone, filled all the places of the ring
/// and of the queue: what a client's core counts no more.
#[test]
fn what_no_peer_has_answered_takes_no_more_bytes_than_the_limit() {
    let [here, there] = pair_of(10_000);
    let there_id = ShardId::new(1);
    let full = Err(Error::Overloaded("requests to another core"));
    assert_eq!(
        here.check_place(Line::Reads, there_id, 1 << 20),
        Ok(()),
        "one that is alone is taken"
    );
    (0..7).for_each(|number| ask(&here, number));
    assert_eq!(here.check_place(Line::Reads, there_id, 1000), Ok(()));
    assert_eq!(here.check_place(Line::Reads, there_id, 5000), full, "seven are not answered");
    let record = vec![0; 1 << 20];
    here.send(there_id, Waiting::Part(0), Request::Apply(record.into()));
    assert_eq!(here.check_place(Line::Reads, there_id, 1), full);
    // What ends another request is counted nowhere, and not refused.
    here.send(there_id, Waiting::End(None), Request::EndRead(0));
    here.publish();
    for round in 0..8 {
        assert!(here.asked_bytes.get() > 0 || round > 3, "{round}");
        let take = |received| match received {
            Received::Question(asker, _) => there.peer_done(asker),
            Received::Answer(..) => panic!("nothing was asked there"),
        };
        there.receive(take, || false);
        there.publish();
        here.receive(|_| (), || false);
        here.publish();
    }
    assert_eq!(here.asked_bytes.get(), 0, "all are answered");
    assert_eq!(here.check_place(Line::Reads, there_id, 1 << 20), Ok(()));
}

/// Before: the first refusal of a part was told, though others may be there: `Overloaded` says that nothing was done.
#[test]
fn a_write_of_which_some_parts_are_refused_says_whether_others_may_be_there() {
    let [here, _] = pair();
    let full = || Error::Overloaded("a limit");
    let no_table = || Error::invalid("there is no table");
    let no_space = || Error::DiskFull { file: "log".into() };
    let failed = || Error::Poisoned(Box::new(no_space()));
    let partly = |error| Err(Error::PartlyWritten(Box::new(error)));
    for (parts, told) in [
        (vec![Ok(()), Ok(())], Ok(())),
        (vec![Err(full()), Err(no_space()), Err(no_table())], Err(full())),
        (vec![Err(full()), Ok(())], partly(full())),
        (vec![Ok(()), Err(no_space()), Err(full())], partly(no_space())),
        (vec![Err(full()), Err(failed())], partly(full())),
    ] {
        let (ticket, parts_left) = (Ticket::Caller(7), parts.len());
        let batch = Waiting::Batch { ticket, parts_left, failed: None, may_be_written: false };
        let batch = here.remember(batch);
        let mut done = parts.into_iter().map(|part| here.part_done(batch, part));
        let last = done.by_ref().find_map(|done| done).map(|(_, result)| result);
        assert_eq!((last, done.next().is_none()), (Some(told), true));
    }
}
