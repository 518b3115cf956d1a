#include "comm/ucx/ucx_group.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "comm/cpu_rank_sum.hpp"
#include "comm/sent_rows.hpp"
#include "comm/ucx/ucx_transport.hpp"
#include "core/cpu_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// Small enough that the pieces of a few members stay in the cache while they are added.
constexpr std::size_t piece_bytes = std::size_t{512} << 10;

using Phase = UcxGroupHeader::Phase;

// Divides `rows` of `row_bytes` each into one part per member. `source` has every member's rows.
struct GroupSplit {
  RowSplit rows;
  std::size_t row_bytes;
  std::size_t begin(int member) const { return static_cast<std::size_t>(rows.begin(member)) * row_bytes; }
  std::size_t bytes(int member) const { return static_cast<std::size_t>(rows.count(member)) * row_bytes; }
};

}  // namespace

UcxGroupPart::~UcxGroupPart() {
  worker->call([this] {
    if (forget) forget();
    if (mail) mail->close();
  });
}

// One collective, on the stream's thread.
class UcxGroup::Call {
 public:
  explicit Call(UcxGroup& group) : group_(group), mail_(*group.part_->mail), board_(*group.part_->board) {
    number_ = ++group.calls_;
  }

  // full[begin(m) ...] of every member m becomes m's `shard`.
  void gather(const void* shard, std::byte* full, const GroupSplit& split) {
    send_part(Phase::gather, shard, split.bytes(self()));
    expect_parts(full, split);
    board_.bring(self(), shard, number_);
    for (int member = 0; member < group_.size_; ++member) {
      if (is_far(member) || split.bytes(member) == 0) continue;
      const void* from = board_.source(member, number_);
      std::byte* to = full + split.begin(member);
      if (from != to) std::memcpy(to, from, split.bytes(member));
    }
    end();
  }

  // The target becomes the source of the previous member. Other members get empty messages.
  void shift(const void* source, void* target, std::size_t bytes) {
    const int size = group_.size_, next = (self() + 1) % size, before = (self() + size - 1) % size;
    for (const int member : group_.far_) {
      mail_.send(others_, header(self(), member, Phase::gather, 0), source, member == next ? bytes : 0);
      mail_.expect(others_, header(member, self(), Phase::gather, 0), {target, member == before ? bytes : 0});
    }
    board_.bring(self(), source, number_);
    if (!is_far(before) && bytes > 0) std::memcpy(target, board_.source(before, number_), bytes);
    end();
  }

  // received: the own part of every member's source.
  void exchange_parts(const std::byte* source, std::byte* received, const GroupSplit& split) {
    const std::size_t own = split.bytes(self());
    board_.bring(self(), source, number_);
    for (int member = 0; member < group_.size_; ++member, received += own) {
      if (is_far(member)) {
        mail_.send(others_, header(self(), member, Phase::gather, 0), source + split.begin(member), split.bytes(member));
        mail_.expect(others_, header(member, self(), Phase::gather, 0), {received, own});
      } else if (own > 0) {
        std::memcpy(received, static_cast<const std::byte*>(board_.source(member, number_)) + split.begin(self()), own);
      }
    }
    end();
  }

  // The counts go ahead of the rows. The receiver places the rows once it has the counts of all members.
  void exchange(const RowExchange& own) {
    board_.bring(self(), &own, number_);
    const auto* const offsets = own.offsets.as<std::int32_t>();
    const auto size = static_cast<std::size_t>(group_.size_);
    sent_counts_.resize(size);
    coming_counts_.resize(size);
    for (const int member : group_.far_) {
      const auto at = static_cast<std::size_t>(member);
      sent_counts_[at] = offsets[member + 1] - offsets[member];
      mail_.send(others_, header(self(), member, Phase::gather, 0), &sent_counts_[at], sizeof(std::int32_t));
      mail_.expect(coming_[0], header(member, self(), Phase::gather, 0), {&coming_counts_[at], sizeof(std::int32_t)});
      send_rows(own, member);
    }
    mail_.wait(coming_[0]);
    place_rows(own);
    for (int member = 0; member < group_.size_; ++member) receive_rows(own, member);
    end();
  }

  struct Sum {
    const std::byte* source;  // every part, with this member's values
    std::byte* target;        // of the part that this member owns
    DType dtype;
    Reduction reduction;
    std::byte* all;  // receives the other parts' sums; null: nobody wants them
  };

  void add(const Sum& sum, const GroupSplit& split) {
    board_.bring(self(), sum.source, number_);
    for (const int owner : group_.far_) send_pieces(owner, sum.source + split.begin(owner), split.bytes(owner));
    if (sum.all != nullptr) expect_sums(sum.all, split);
    add_own(sum, split);
    if (sum.all != nullptr) {
      board_.add(self(), sum.target, number_);
      for (int owner = 0; owner < group_.size_; ++owner) {
        if (is_far(owner) || owner == self() || split.bytes(owner) == 0) continue;
        std::memcpy(sum.all + split.begin(owner), board_.result(owner, number_), split.bytes(owner));
      }
    }
    end();
  }

 private:
  void send_rows(const RowExchange& own, int member) {
    const auto* const offsets = own.offsets.as<std::int32_t>();
    for (std::size_t i = 0; i < own.rows.size(); ++i) {
      const Tensor rows = sent_rows(own.rows[i], offsets[member], offsets[member + 1], ordered_rows_.emplace_back());
      mail_.send(others_, header(self(), member, Phase::gather, static_cast<std::uint32_t>(i + 1)), rows.data, rows.bytes());
    }
  }

  // Writes the places of the rows of every member.
  void place_rows(const RowExchange& own) {
    auto* const received = own.received.as<std::int32_t>();
    received[0] = 0;
    for (int member = 0; member < group_.size_; ++member) {
      const auto at = static_cast<std::size_t>(member);
      if (!is_far(member)) {
        const auto* const offsets = exchange_of(member).offsets.as<std::int32_t>();
        coming_counts_[at] = offsets[self() + 1] - offsets[self()];
      }
      const std::int64_t end = std::int64_t{received[member]} + coming_counts_[at];
      if (coming_counts_[at] < 0 || end > own.rows.front().target.rows()) {
        throw Error(ErrorKind::peer_lost, "member " + std::to_string(member) + " of a group sends " +
                                              std::to_string(coming_counts_[at]) + " rows, more than may come");
      }
      received[member + 1] = static_cast<std::int32_t>(end);
    }
  }

  void receive_rows(const RowExchange& own, int member) {
    const auto* const received = own.received.as<std::int32_t>();
    for (std::size_t i = 0; i < own.rows.size(); ++i) {
      const Tensor rows = own.rows[i].target.row_range(received[member], received[member + 1]);
      if (is_far(member)) {
        mail_.expect(others_, header(member, self(), Phase::gather, static_cast<std::uint32_t>(i + 1)),
                     {rows.data, rows.bytes()});
      } else if (rows.bytes() > 0) {
        const RowExchange& other = exchange_of(member);
        const std::int32_t begin = other.offsets.as<std::int32_t>()[self()];
        copy_sent_rows(other.rows[i], begin, begin + rows.rows(), rows.data);
      }
    }
  }
  const RowExchange& exchange_of(int member) const { return *static_cast<const RowExchange*>(board_.source(member, number_)); }

  int self() const { return group_.member_; }
  bool is_far(int member) const { return mail_.process(member) != mail_.process(self()); }

  // An empty part is one empty piece, because every member must receive something from every other one in every call.
  static std::uint32_t pieces(std::size_t bytes) {
    return static_cast<std::uint32_t>(std::max<std::size_t>((bytes + piece_bytes - 1) / piece_bytes, 1));
  }
  static std::size_t piece_size(std::size_t bytes, std::uint32_t piece) {
    return std::min(piece_bytes, bytes - piece * piece_bytes);
  }

  UcxGroupHeader header(int from, int to, Phase phase, std::uint32_t piece) const {
    UcxGroupHeader made;
    made.from = static_cast<std::uint32_t>(from);
    made.to = static_cast<std::uint32_t>(to);
    made.call = number_;
    made.phase = phase;
    made.piece = piece;
    return made;
  }

  void send_part(Phase phase, const void* data, std::size_t bytes) {
    for (const int member : group_.far_) mail_.send(others_, header(self(), member, phase, 0), data, bytes);
  }

  void expect_parts(std::byte* full, const GroupSplit& split) {
    for (const int member : group_.far_) {
      mail_.expect(others_, header(member, self(), Phase::gather, 0), {full + split.begin(member), split.bytes(member)});
    }
  }

  void send_pieces(int owner, const std::byte* part, std::size_t bytes) {
    for (std::uint32_t piece = 0; piece < pieces(bytes); ++piece) {
      mail_.send(others_, header(self(), owner, Phase::reduce, piece), part + piece * piece_bytes, piece_size(bytes, piece));
    }
  }

  // Sums overwrite what was added: their owner has received this member's piece before it sends the sum.
  void expect_sums(std::byte* all, const GroupSplit& split) {
    for (const int owner : group_.far_) {
      for (std::uint32_t piece = 0; piece < pieces(split.bytes(owner)); ++piece) {
        mail_.expect(others_, header(owner, self(), Phase::gather, piece),
                     {all + split.begin(owner) + piece * piece_bytes, piece_size(split.bytes(owner), piece)});
      }
    }
  }

  std::byte* place(std::size_t far, std::uint32_t piece) const {
    return static_cast<std::byte*>(group_.staging_.data()) + (far * 2 + piece % 2) * piece_bytes;
  }

  void expect_piece(std::uint32_t piece, std::size_t bytes) {
    for (std::size_t far = 0; far < group_.far_.size(); ++far) {
      mail_.expect(coming_[piece % 2], header(group_.far_[far], self(), Phase::reduce, piece),
                   {place(far, piece), piece_size(bytes, piece), group_.memory_->handle()});
    }
  }

  // Adds the part that this member owns, piece by piece: two are in flight while one is added.
  void add_own(const Sum& sum, const GroupSplit& split) {
    const std::size_t bytes = split.bytes(self());
    const std::uint32_t count = pieces(bytes);
    for (std::uint32_t piece = 0; piece < std::min(count, 2U); ++piece) expect_piece(piece, bytes);
    for (std::uint32_t piece = 0; piece < count; ++piece) {
      mail_.wait(coming_[piece % 2]);
      std::byte* target = sum.target + piece * piece_bytes;
      add_piece(sum, split, piece, target);
      if (piece + 2 < count) expect_piece(piece + 2, bytes);
      if (sum.all == nullptr) continue;
      for (const int member : group_.far_) {
        mail_.send(others_, header(self(), member, Phase::gather, piece), target, piece_size(bytes, piece));
      }
    }
  }

  void add_piece(const Sum& sum, const GroupSplit& split, std::uint32_t piece, std::byte* target) {
    const std::size_t size = piece_size(split.bytes(self()), piece);
    if (size == 0) return;
    std::vector<const std::byte*> sources(static_cast<std::size_t>(group_.size_));
    for (int member = 0; member < group_.size_; ++member) {
      if (is_far(member)) continue;
      const auto* all = static_cast<const std::byte*>(board_.source(member, number_));
      sources[static_cast<std::size_t>(member)] = all + split.begin(self()) + piece * piece_bytes;
    }
    for (std::size_t far = 0; far < group_.far_.size(); ++far) {
      sources[static_cast<std::size_t>(group_.far_[far])] = place(far, piece);
    }
    const auto count = static_cast<std::int64_t>(size / size_of(sum.dtype));
    reduce_in_rank_order({sources, {&target, 1}, count, sum.dtype, sum.reduction});
  }

  void end() {
    mail_.wait(others_);
    board_.leave(self(), number_);
    mail_.finished(self(), number_);
  }

 public:
  // Waits until nothing moves to or from the call's memory.
  ~Call() {
    for (auto* batch : {&others_, &coming_[0], &coming_[1]}) mail_.settle(*batch);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  UcxGroup& group_;
  UcxGroupMail& mail_;
  UcxGroupBoard& board_;
  std::uint64_t number_;
  UcxGroupMail::Batch others_;                             // all but the pieces to be added
  UcxGroupMail::Batch coming_[2];                          // these pieces, by place, or the counts of rows
  std::vector<std::int32_t> sent_counts_, coming_counts_;  // of rows, by member
  std::vector<std::vector<std::byte>> ordered_rows_;       // in transfer
};

std::size_t ucx_group_memory(int ranks) { return static_cast<std::size_t>(ranks - 1) * 2 * piece_bytes; }

UcxGroup::UcxGroup(std::shared_ptr<UcxGroupPart> part, int member, int size, Device& device)
    : part_(std::move(part)), member_(member), size_(size) {
  for (int other = 0; other < size; ++other) {
    if (part_->mail->process(other) != part_->mail->process(member)) far_.push_back(other);
  }
  staging_ =
      device.allocate(ucx_group_memory(static_cast<int>(far_.size()) + 1), "pieces of group " + std::to_string(part_->number));
  part_->worker->call([this] { memory_ = std::make_unique<UcxMemory>(*part_->worker, staging_.data(), staging_.bytes()); });
}

UcxGroup::~UcxGroup() {
  part_->worker->call([this] { memory_.reset(); });
}

template <class Work>
void UcxGroup::enqueue(Stream& stream, Work work) {
  cpu_stream(stream).enqueue([this, work] {
    Call call(*this);
    work(call);
  });
}

void UcxGroup::all_gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows) {
  const GroupSplit split{rows, static_cast<std::size_t>(full.cols()) * size_of(full.dtype)};
  enqueue(stream, [shard, full, split](Call& call) { call.gather(shard.data, static_cast<std::byte*>(full.data), split); });
}

void UcxGroup::reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard, const RowSplit& rows) {
  const GroupSplit split{rows, static_cast<std::size_t>(full.cols()) * size_of(full.dtype)};
  enqueue(stream, [shard, full, split](Call& call) {
    call.add(
        {static_cast<const std::byte*>(full.data), static_cast<std::byte*>(shard.data), full.dtype, Reduction::sum, nullptr},
        split);
  });
}

void UcxGroup::all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) {
  const GroupSplit split{RowSplit(tensor.elements(), size_), size_of(tensor.dtype)};
  enqueue(stream, [member = member_, tensor, reduction, split](Call& call) {
    auto* data = static_cast<std::byte*>(tensor.data);
    call.add({data, data + split.begin(member), tensor.dtype, reduction, data}, split);
  });
}

void UcxGroup::shift(Stream& stream, const Tensor& source, const Tensor& target) {
  enqueue(stream, [source, target](Call& call) { call.shift(source.data, target.data, source.bytes()); });
}

void UcxGroup::exchange(Stream& stream, const Tensor& full, const Tensor& received, const RowSplit& rows) {
  const GroupSplit split{rows, static_cast<std::size_t>(full.cols()) * size_of(full.dtype)};
  enqueue(stream, [full, received, split](Call& call) {
    call.exchange_parts(static_cast<const std::byte*>(full.data), static_cast<std::byte*>(received.data), split);
  });
}

void UcxGroup::all_to_all(Stream& stream, const RowExchange& exchange) {
  enqueue(stream, [exchange](Call& call) { call.exchange(exchange); });
}

void UcxGroup::abort(std::exception_ptr cause) {
  part_->board->abort(cause);
  part_->mail->abort(std::move(cause));
}

}  // namespace pipetrain
