//! The bytes of one connection, cut into frames.
//!
//! ```text
//!  bare      ├ header ┼ body ┤├ header ┼ body ┤       before STARTUP is answered, and always in v3 and v4
//!  segments  ├ [header ┼ body ┤├ header ┼ body] ┤     v5 afterwards: whole frames in a segment,
//!            ├ [header ┼ bo] ┤├ [dy] ┤              or one frame over several
//! ```
//!
//! The caller keeps the input and offers its start again and again; each [`FrameReader::next`] says how
//! much of it is used up and what came of it. Frames lie where they arrived, unless they were
//! compressed or came in parts.
//!
//! Invariants
//! 1. Nothing is allocated for a frame before its declared size was checked against the limit.
//! 2. A frame over the limit is passed over, however it arrives, and the connection stays in step.
//! 3. `window` (whole frames of a segment already checked) is empty before another segment is read.
//! 4. Only what a frame that was not handed out yet lies in is kept: [`FrameReader::release`] frees the rest.
//! 5. A segment that is given up before it is whole is dropped as it comes, and its frames are told by their headers.
//!    Its payload is not checked: nothing of it is taken.

use super::buffer::give_back;
use super::compress::Compression;
use super::error::Malformed;
use super::header::{BadHeader, Direction, Flags, HEADER_BYTES, Header, Version};
use super::segment::{Segment, SegmentFormat, SegmentHead, TRAILER_BYTES};
use crate::limits::FRAME_BUFFER_BYTES_KEPT;

/// The frame that a step found, if any.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// Nothing yet: more input is needed.
    Starved,
    /// Nothing yet: the next segment is whole, and expands to more than the caller has space for now.
    HeldBack,
    /// A frame and its body, uncompressed.
    Frame(Header, &'a [u8]),
    /// A frame whose body is larger than allowed: this many bytes. It is being passed over.
    TooLarge(Header, u64),
    /// A frame of a segment that was [given up](FrameReader::pass_over). It is being passed over.
    PassedOver(Header),
    /// A frame whose body cannot be decompressed. The connection is still in step.
    Unreadable(Header, Malformed),
}

/// One step: how many bytes of the input it used up, and what it found.
#[derive(Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// How many bytes the caller may drop from the start of its input.
    pub used: usize,
    /// The frame at the start of the input, if it is whole.
    pub arrival: Arrival<'a>,
}

/// Why the connection is out of step and must close after the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// A header that makes no sense.
    Header(BadHeader),
    /// A segment that makes no sense.
    Segment(Malformed),
}

/// What was [given up](FrameReader::pass_over), and how many bytes the caller may drop from the start of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassedOver {
    /// A frame, of which at least the header had come.
    Frame(Header, usize),
    /// A segment. [`FrameReader::next`] tells the frames in it that were not told yet.
    Segment(usize),
}

/// Where the frames of the current segment are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Window {
    /// Nowhere: the next segment is to be read.
    Empty,
    /// The next `left` bytes of the input, followed by the checksum.
    Input { left: usize },
    /// In `expanded`, from `at`.
    Expanded { at: usize },
}

/// A segment that was given up before it was whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GivenUp {
    /// Bytes of its payload that are still to come.
    payload_left: usize,
    /// Bytes of `payload_left` before the next frame header; 0 where a header begins.
    frame_left: usize,
    /// Bytes of its checksum that are still to come.
    trailer_left: usize,
}

impl GivenUp {
    /// A segment of which the header has come, and so many bytes of whose payload are not looked at for frames.
    fn of(head: &SegmentHead, frame_left: usize) -> GivenUp {
        GivenUp { payload_left: head.payload_bytes, frame_left, trailer_left: TRAILER_BYTES }
    }
}

/// The receiving half of a connection, without its socket.
#[derive(Debug)]
pub struct FrameReader {
    direction: Direction,
    body_bytes_max: u32,
    established: Option<Version>,
    compression: Compression,
    segments: Option<SegmentFormat>,
    window: Window,
    /// A frame over the limit: so many bytes of it are still to come.
    skip_bytes: u64,
    given_up: Option<GivenUp>,
    /// Decompressed: whole frames of a segment (v5) or one body (v3, v4).
    expanded: Vec<u8>,
    /// A frame that comes in parts.
    parts: Vec<u8>,
    /// `parts` was handed out and is to be emptied.
    parts_done: bool,
}

/// The buffer that a frame lies in.
enum Place {
    Input { start: usize, end: usize },
    Expanded { start: usize, end: usize },
    Parts,
}

impl FrameReader {
    /// The reader of a new connection whose peer sends in this direction.
    pub fn new(direction: Direction, body_bytes_max: u32) -> FrameReader {
        FrameReader {
            direction,
            body_bytes_max,
            established: None,
            compression: Compression::None,
            segments: None,
            window: Window::Empty,
            skip_bytes: 0,
            given_up: None,
            expanded: Vec::new(),
            parts: Vec::new(),
            parts_done: false,
        }
    }

    /// Changes the size limit: a connection that finished its handshake may send larger frames.
    pub fn set_body_bytes_max(&mut self, body_bytes_max: u32) {
        self.body_bytes_max = body_bytes_max;
    }

    /// What STARTUP chose. In v5 everything from the next byte on is in segments.
    pub fn establish(&mut self, version: Version, compression: Compression) {
        self.established = Some(version);
        self.compression = compression;
        self.segments = match (version, compression) {
            (Version::V5, Compression::None) => Some(SegmentFormat::Plain),
            (Version::V5, _) => Some(SegmentFormat::Lz4),
            _ => None,
        };
    }

    /// Gives back the memory of an idle connection.
    pub fn trim(&mut self) {
        if self.window == Window::Empty {
            self.expanded = Vec::new();
        }
        self.parts.shrink_to_fit();
    }

    /// The frame that was handed out last is not needed any more: gives back the memory of what is empty with it.
    #[inline]
    pub fn release(&mut self) {
        if std::mem::take(&mut self.parts_done) {
            release(&mut self.parts);
        }
        if self.window == Window::Empty {
            release(&mut self.expanded);
        }
    }

    /// Bytes of frames that were not handed out yet, beside the input: of one that comes in parts, and of a segment
    /// that was decompressed.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.parts_bytes() + self.expanded_bytes()
    }

    /// Bytes of a segment that was decompressed and has frames that were not handed out yet.
    #[inline]
    pub fn expanded_bytes(&self) -> usize {
        match self.window {
            Window::Expanded { .. } => self.expanded.len(),
            Window::Empty | Window::Input { .. } => 0,
        }
    }

    /// Gives back most of the memory that what is held does not need (`buffer.rs`).
    pub fn give_back(&mut self, kept_bytes: usize) {
        for buffer in [&mut self.expanded, &mut self.parts] {
            give_back(buffer, kept_bytes);
        }
    }

    /// Bytes of a frame that comes in parts, beside the input.
    #[inline]
    pub fn parts_bytes(&self) -> usize {
        if self.parts_done { 0 } else { self.parts.len() }
    }

    /// Gives up the frame that has begun to arrive, or the segment that is not whole: what is there of it goes, and the
    /// rest is passed over. `None` if none has begun, or it is not known which: its header is not whole, or compressed.
    pub fn pass_over(&mut self, input: &[u8]) -> Option<PassedOver> {
        if let Some(format) = self.segments {
            return self.give_up(format, input);
        }
        if self.skip_bytes > 0 {
            return None;
        }
        let header = self.header(input).ok().flatten()?;
        self.skip_bytes = header.frame_bytes() as u64;
        Some(PassedOver::Frame(header, self.skip(input.len())))
    }

    /// How many bytes the compressed segment lacks that has begun at the start of `input`; `None` if none has, or its
    /// frame is known already.
    pub fn compressed_rest(&self, input: &[u8]) -> Option<usize> {
        let is_between = self.window == Window::Empty
            && self.given_up.is_none()
            && self.skip_bytes == 0
            && self.parts_bytes() == 0;
        let head = self.segments.filter(|_| is_between)?.head(input).ok().flatten()?;
        head.expands_to?;
        let segment_bytes = head.header_bytes + head.payload_bytes + TRAILER_BYTES;
        segment_bytes.checked_sub(input.len()).filter(|rest| *rest > 0)
    }

    /// Starts to drop the segment at the start of `input`. Between two segments the frame in parts goes; of a segment
    /// of whole frames [`FrameReader::next`] tells each; of a part of a frame that frame goes, unless it is skipped
    /// already.
    fn give_up(&mut self, format: SegmentFormat, input: &[u8]) -> Option<PassedOver> {
        if self.window != Window::Empty || self.given_up.is_some() {
            return None;
        }
        match format.head(input).ok().flatten() {
            None => self.give_up_between_segments(),
            Some(head) if head.self_contained => self.give_up_whole_frames(&head),
            Some(head) => self.give_up_part_of_frame(&head, input),
        }
    }

    fn give_up_between_segments(&mut self) -> Option<PassedOver> {
        let arrived = self.parts_bytes();
        let header = self.header(&self.parts).ok().flatten().filter(|_| arrived > 0)?;
        self.skip_rest(&header, arrived)?;
        Some(PassedOver::Frame(header, 0))
    }

    fn give_up_whole_frames(&mut self, head: &SegmentHead) -> Option<PassedOver> {
        if head.expands_to.is_some() || self.parts_bytes() > 0 || self.skip_bytes > 0 {
            return None;
        }
        self.given_up = Some(GivenUp::of(head, 0));
        Some(PassedOver::Segment(head.header_bytes))
    }

    fn give_up_part_of_frame(&mut self, head: &SegmentHead, input: &[u8]) -> Option<PassedOver> {
        let SegmentHead { header_bytes, payload_bytes, expands_to, .. } = *head;
        let of_frame = expands_to.unwrap_or(payload_bytes);
        let passed = if self.skip_bytes > 0 {
            self.skip_bytes = self.skip_bytes.checked_sub(of_frame as u64)?;
            PassedOver::Segment(header_bytes)
        } else {
            let arrived = self.parts_bytes();
            let begins = match expands_to {
                _ if arrived > 0 => &self.parts[..],
                None => up_to(&input[header_bytes..], payload_bytes),
                Some(_) => return None,
            };
            let header = self.header(begins).ok().flatten()?;
            self.skip_rest(&header, arrived + of_frame)?;
            PassedOver::Frame(header, header_bytes)
        };
        self.given_up = Some(GivenUp::of(head, payload_bytes));
        Some(passed)
    }

    /// Skips what is to come of a frame of which so many bytes have come; `None` if it has no more than these.
    fn skip_rest(&mut self, header: &Header, arrived: usize) -> Option<()> {
        self.skip_bytes = header.frame_bytes().checked_sub(arrived)? as u64;
        (self.parts_done, self.parts) = (false, Vec::new());
        Some(())
    }

    /// Drops what has come of a segment that was given up, up to the end of the first frame that begins in it: how many
    /// bytes these are, and the frame.
    fn drop_given_up(&mut self, input: &[u8]) -> Result<(usize, Option<Header>), Broken> {
        let mut used = 0;
        let Some(mut given_up) = self.given_up else { return Ok((used, None)) };
        let take = |left: &mut usize, used: &mut usize| {
            let taken = (*left).min(input.len() - *used);
            (*left, *used) = (*left - taken, *used + taken);
            taken
        };
        given_up.payload_left -= take(&mut given_up.frame_left, &mut used);
        let mut begins = None;
        if given_up.payload_left == 0 {
            take(&mut given_up.trailer_left, &mut used);
        } else if given_up.frame_left == 0 {
            begins = self.header(up_to(&input[used..], given_up.payload_left))?;
            let frame_bytes = begins.map_or(HEADER_BYTES, |header| header.frame_bytes());
            if frame_bytes > given_up.payload_left {
                return Err(out_of_step("a self-contained segment ends within a frame"));
            }
            given_up.frame_left = begins.map_or(0, |_| frame_bytes);
            given_up.payload_left -= take(&mut given_up.frame_left, &mut used);
        }
        self.given_up = Some(given_up).filter(|given_up| given_up.trailer_left > 0);
        Ok((used, begins))
    }

    /// Bytes of memory this reader has beside the input, used or kept for what comes next.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        self.expanded.capacity() + self.parts.capacity()
    }

    /// Takes the next frame from the start of `input`.
    pub fn next<'a>(&'a mut self, input: &'a [u8]) -> Result<Step<'a>, Broken> {
        self.next_within(input, usize::MAX)
    }

    /// The same, while a segment with which frames begin may be decompressed to so many bytes.
    #[inline]
    pub fn next_within<'a>(
        &'a mut self,
        input: &'a [u8],
        expanded_bytes_max: usize,
    ) -> Result<Step<'a>, Broken> {
        self.release();
        match self.segments {
            None => self.next_bare(input),
            Some(format) => self.next_segmented(format, input, expanded_bytes_max),
        }
    }

    fn next_bare<'a>(&'a mut self, input: &'a [u8]) -> Result<Step<'a>, Broken> {
        let used = self.skip(input.len());
        let Some(header) = self.header(&input[used..])? else {
            return Ok(Step { used, arrival: Arrival::Starved });
        };
        let frame_bytes = header.frame_bytes();
        if header.body_bytes > self.body_bytes_max {
            self.skip_bytes = frame_bytes as u64;
            let used = used + self.skip(input.len() - used);
            let arrival = Arrival::TooLarge(header, u64::from(header.body_bytes));
            return Ok(Step { used, arrival });
        }
        if input.len() - used < frame_bytes {
            return Ok(Step { used, arrival: Arrival::Starved });
        }
        let place = Place::Input { start: used, end: used + frame_bytes };
        self.deliver(header, input, place, used + frame_bytes)
    }

    fn next_segmented<'a>(
        &'a mut self,
        format: SegmentFormat,
        input: &'a [u8],
        expanded_bytes_max: usize,
    ) -> Result<Step<'a>, Broken> {
        let (mut used, passed) = self.drop_given_up(input)?;
        if let Some(header) = passed {
            return Ok(Step { used, arrival: Arrival::PassedOver(header) });
        }
        if self.given_up.is_some() {
            return Ok(Step { used, arrival: Arrival::Starved });
        }
        loop {
            if self.window != Window::Empty {
                return self.next_in_window(input, used);
            }
            let Some(segment) = format.decode(&input[used..]).map_err(Broken::Segment)? else {
                return Ok(Step { used, arrival: Arrival::Starved });
            };
            let payload_bytes = segment.expands_to.unwrap_or(segment.payload.len());
            let begins = self.skip_bytes == 0 && self.parts.is_empty();
            if begins && segment.expands_to.is_some_and(|bytes| bytes > expanded_bytes_max) {
                return Ok(Step { used, arrival: Arrival::HeldBack });
            }
            if segment.self_contained {
                used += self.open(&segment)?;
                continue;
            }
            used += segment.segment_bytes;
            if self.skip_bytes > 0 {
                let Some(left) = self.skip_bytes.checked_sub(payload_bytes as u64) else {
                    return Err(out_of_step("a part runs beyond its frame"));
                };
                self.skip_bytes = left;
                continue;
            }
            segment.expand_into(&mut self.parts).map_err(Broken::Segment)?;
            if let Some(arrival) = self.judge_parts()? {
                return match arrival {
                    Judged::TooLarge(header) => {
                        let declared = u64::from(header.body_bytes);
                        Ok(Step { used, arrival: Arrival::TooLarge(header, declared) })
                    }
                    Judged::Whole(header) => self.deliver(header, input, Place::Parts, used),
                };
            }
        }
    }

    /// Makes a segment of whole frames the current one; how many bytes of the input that uses up.
    fn open(&mut self, segment: &Segment<'_>) -> Result<usize, Broken> {
        if self.skip_bytes > 0 || !self.parts.is_empty() {
            return Err(out_of_step("a whole frame arrived amid the parts of another"));
        }
        let payload_bytes = segment.payload.len();
        if segment.expands_to.is_some() {
            self.expanded.clear();
            segment.expand_into(&mut self.expanded).map_err(Broken::Segment)?;
            self.window = Window::Expanded { at: 0 };
        } else if payload_bytes > 0 {
            self.window = Window::Input { left: payload_bytes };
            return Ok(segment.segment_bytes - TRAILER_BYTES - payload_bytes);
        }
        Ok(segment.segment_bytes)
    }

    /// The next of the whole frames in the current segment.
    fn next_in_window<'a>(&'a mut self, input: &'a [u8], used: usize) -> Result<Step<'a>, Broken> {
        let window = match self.window {
            Window::Input { left } => &input[used..used + left],
            Window::Expanded { at } => &self.expanded[at..],
            Window::Empty => unreachable!("the caller found a window"),
        };
        let window_bytes = window.len();
        let header = match self.header(window)? {
            Some(header) if header.frame_bytes() <= window_bytes => header,
            _ => return Err(out_of_step("a self-contained segment ends within a frame")),
        };
        let frame_bytes = header.frame_bytes();
        let last = frame_bytes == window_bytes;
        let (place, used) = match self.window {
            Window::Input { left } => {
                self.window = Window::Input { left: left - frame_bytes };
                let end = used + frame_bytes;
                let used = if last { end + TRAILER_BYTES } else { end };
                (Place::Input { start: end - frame_bytes, end }, used)
            }
            Window::Expanded { at } => {
                self.window = Window::Expanded { at: at + frame_bytes };
                (Place::Expanded { start: at, end: at + frame_bytes }, used)
            }
            Window::Empty => unreachable!("the caller found a window"),
        };
        if last {
            self.window = Window::Empty;
        }
        if header.body_bytes > self.body_bytes_max {
            let declared = u64::from(header.body_bytes);
            return Ok(Step { used, arrival: Arrival::TooLarge(header, declared) });
        }
        self.deliver(header, input, place, used)
    }

    /// Whether the parts make a frame yet.
    fn judge_parts(&mut self) -> Result<Option<Judged>, Broken> {
        let Some(header) = self.header(&self.parts)? else { return Ok(None) };
        let frame_bytes = header.frame_bytes();
        if self.parts.len() > frame_bytes {
            return Err(out_of_step("a part runs beyond its frame"));
        }
        if header.body_bytes > self.body_bytes_max {
            self.skip_bytes = (frame_bytes - self.parts.len()) as u64;
            release(&mut self.parts);
            return Ok(Some(Judged::TooLarge(header)));
        }
        Ok((self.parts.len() == frame_bytes).then_some(Judged::Whole(header)))
    }

    /// Hands out the frame at `place`, its body decompressed if it has to be.
    fn deliver<'a>(
        &'a mut self,
        header: Header,
        input: &'a [u8],
        place: Place,
        used: usize,
    ) -> Result<Step<'a>, Broken> {
        let compressed = self.segments.is_none() && header.flags.has(Flags::COMPRESSED);
        let body = match place {
            Place::Input { start, end } if compressed => {
                let body = &input[start + HEADER_BYTES..end];
                let limit = self.body_bytes_max;
                match self.compression.expand(body, limit, &mut self.expanded) {
                    Ok(Ok(())) => &self.expanded[..],
                    Ok(Err(declared)) => {
                        return Ok(Step { used, arrival: Arrival::TooLarge(header, declared) });
                    }
                    Err(reason) => {
                        return Ok(Step { used, arrival: Arrival::Unreadable(header, reason) });
                    }
                }
            }
            Place::Input { start, end } => &input[start + HEADER_BYTES..end],
            Place::Expanded { start, end } => &self.expanded[start + HEADER_BYTES..end],
            Place::Parts => {
                self.parts_done = true;
                &self.parts[HEADER_BYTES..]
            }
        };
        Ok(Step { used, arrival: Arrival::Frame(header, body) })
    }

    fn header(&self, bytes: &[u8]) -> Result<Option<Header>, Broken> {
        let header = Header::decode(bytes, self.direction).map_err(Broken::Header)?;
        match (header, self.established) {
            (Some(header), Some(version)) if header.version != version => {
                Err(Broken::Header(BadHeader {
                    stream: header.stream,
                    version,
                    reason: Malformed::because(format!(
                        "Invalid message version. Got {} but previous messages on this connection had version {version}",
                        header.version
                    )),
                }))
            }
            _ => Ok(header),
        }
    }

    /// Passes over what is left of a frame over the limit, as far as `available` bytes go.
    fn skip(&mut self, available: usize) -> usize {
        let skipped = self.skip_bytes.min(available as u64);
        self.skip_bytes -= skipped;
        skipped as usize
    }
}

enum Judged {
    Whole(Header),
    TooLarge(Header),
}

/// The first `most` bytes, or all if they are fewer: behind a payload lies its checksum, which is no part of a header.
fn up_to(bytes: &[u8], most: usize) -> &[u8] {
    &bytes[..bytes.len().min(most)]
}

/// Empties a buffer, and gives its memory back if that is much.
#[inline]
fn release(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(FRAME_BUFFER_BYTES_KEPT);
}

#[cold]
fn out_of_step(text: &str) -> Broken {
    Broken::Segment(Malformed::because(format!("Invalid segment: {text}")))
}

#[cfg(test)]
mod tests;
