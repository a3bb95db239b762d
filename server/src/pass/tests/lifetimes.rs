//! How connections begin and end: by their clients, by time-outs, and when the server stops.

use std::net::Shutdown;

use super::*;

#[test]
fn too_many_connections_are_turned_away() {
    let mut server = Server::start();
    let mut clients: Vec<_> = (0..4).map(|_| Client::connect(&server, Version::V4)).collect();
    server.run_until_idle();
    assert_eq!(server.pass.connections.len(), 3);
    clients[0].send(1, &Request::Options);
    server.run_until_idle();
    assert_eq!(clients[0].answers(), ["1 SUPPORTED"]);
    assert_eq!(clients[3].answers(), ["closed"]);
}

#[test]
fn a_handshake_that_never_comes_is_ended() {
    let mut server = Server::start();
    let _idle = Client::connect(&server, Version::V4);
    let _ready = Client::ready(&mut server, Version::V4, Compression::None);
    let now = Instant::now() + crate::limits::HANDSHAKE_TIMEOUT + Duration::from_secs(1);
    let expired = |server: &mut Server| {
        let ids = server.pass.connections.ids();
        let expired = |id: &ConnectionId| {
            let Server { pass: Pass { connections, load, .. }, .. } = &mut *server;
            connections.get_mut(*id).unwrap().check_timeouts(now, load) == Fate::Drop
        };
        ids.into_iter().filter(expired).count()
    };
    assert_eq!(expired(&mut server), 1);
}

#[test]
fn a_stop_waits_for_what_is_in_flight() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    client.query(1, "later");
    server.run_until_idle();
    server.stop.set(true);
    server.run_until_idle();
    assert!(!server.pass.is_over(), "a request is in flight");
    client.query(2, "now");
    server.run_until_idle();
    assert!(TcpStream::connect(server.address).is_err(), "no client is let in");
    server.let_go();
    assert!(server.pass.is_over());
    assert_eq!(client.answers(), ["1 later", "closed"]);
}

#[test]
fn a_stopped_transport_ends_connections_once_they_are_answered_and_lets_nobody_in() {
    let mut server = Server::start();
    let mut busy = Client::ready(&mut server, Version::V4, Compression::None);
    let mut quiet = Client::ready(&mut server, Version::V4, Compression::None);
    busy.query(1, "later");
    server.run_until_idle();
    server.transport.set(TransportState::Stopped);
    server.run_until_idle();
    assert_eq!(quiet.answers(), ["closed"]);
    let mut late = TcpStream::connect(server.address).unwrap();
    server.run_until_idle();
    assert_eq!(late.read(&mut [0]).unwrap(), 0, "it is turned away");
    server.let_go();
    assert_eq!(busy.answers(), ["1 later", "closed"]);
    server.transport.set(TransportState::Running);
    let mut next = Client::ready(&mut server, Version::V4, Compression::None);
    next.query(1, "now");
    server.run_until_idle();
    assert_eq!(next.answers(), ["1 now"]);
}

/// Whoever ends a connection in the usual way is gone, though no error says so: its reads end.
#[test]
fn the_end_of_a_client_is_told_when_it_comes_and_what_it_asked_is_answered() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    client.query(1, "later");
    server.run_until_idle();
    assert_eq!(server.pass.service.silent.borrow().len(), 0);
    client.socket.shutdown(Shutdown::Write).unwrap();
    server.run_until_idle();
    assert_eq!(server.pass.service.silent.borrow().len(), 1);
    server.let_go();
    assert_eq!(client.answers(), ["1 later", "closed"]);
}

/// Before: where the last request and the end came with one event, the end was never read. The client waited for the
/// connection to be closed, and its slot was taken for ever.
#[test]
fn the_end_of_a_client_that_comes_with_its_last_request_is_told() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    client.query(1, "later");
    client.socket.shutdown(Shutdown::Write).unwrap();
    server.run_until_idle();
    assert_eq!(server.pass.service.silent.borrow().len(), 1);
    server.let_go();
    assert_eq!(client.answers(), ["1 later", "closed"]);
}

/// Before: they counted no more, however long the core had them: a client that asked, went and came again was never
/// refused.
#[test]
fn requests_of_clients_that_are_gone_count_until_they_are_answered() {
    let mut server = Server::start();
    for round in 1..=2 {
        let mut client = Client::ready(&mut server, Version::V4, Compression::None);
        client.socket.set_nodelay(true).unwrap();
        (1..=3).for_each(|stream| client.query(stream, "later"));
        pass_often(&mut server, &mut client);
        for id in server.pass.connections.ids() {
            server.pass.close(id);
        }
        assert_eq!(server.pass.load.requests(), 3 * round);
    }
    server.let_go();
    assert_eq!(server.pass.load.requests(), 0);
}
