#include "etcd/http.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

namespace holdfast::etcd {

namespace {

// The maximum size of an answer, or of a line of a stream, in bytes. In practice, all answers and lines are shorter.
constexpr std::size_t kLongestAnswer = std::size_t{64} << 20;
// The maximum number of handles that are kept for later requests. No benchmark has more requests at the same time.
constexpr std::size_t kMostIdle = 8;
// A silent connection is probed after this time, so that a stream notices if the server is gone.
constexpr long kProbeAfterSeconds = 10;
constexpr long kProbeEverySeconds = 5;

}  // namespace

class Http::Handle final : public Transfer {
 public:
  Handle(Http& http, Request request, Line line, Done done)
      : http_(http), request_(std::move(request)), line_(std::move(line)), done_(std::move(done)), curl_(take(http)) {
    for (const std::string& header : request_.headers) add_header(header);
    add_header("Content-Type: application/json");
    add_header("Expect:");  // otherwise, a long body waits for "100 Continue", which not all servers send
    configure();
    http_.loop_.add(curl_, [this](CURLcode code) { finish(code); });
  }

  ~Handle() override {
    http_.loop_.remove(curl_);
    ::curl_slist_free_all(headers_);
    if (http_.idle_.size() < kMostIdle) {
      ::curl_easy_reset(curl_);
      http_.idle_.push_back(curl_);
    } else {
      ::curl_easy_cleanup(curl_);
    }
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

 private:
  static CURL* take(Http& http) {
    if (!http.idle_.empty()) {
      CURL* handle = http.idle_.back();
      http.idle_.pop_back();
      return handle;
    }
    CURL* handle = ::curl_easy_init();
    if (handle == nullptr) throw std::bad_alloc();
    return handle;
  }

  template <class Value>
  void set(CURLoption option, Value value) {
    ::curl_easy_setopt(curl_, option, value);
  }

  void add_header(const std::string& header) {
    curl_slist* longer = ::curl_slist_append(headers_, header.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    headers_ = longer;
  }

  void configure() {
    set(CURLOPT_URL, request_.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
    set(CURLOPT_PROXY, "");  // ignore proxies that the environment names
    set(CURLOPT_NOSIGNAL, 1L);
    // After a timeout, do not wait for the thread that still resolves a name.
    set(CURLOPT_QUICK_EXIT, 1L);
    set(CURLOPT_TCP_NODELAY, 1L);
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_TCP_KEEPIDLE, kProbeAfterSeconds);
    set(CURLOPT_TCP_KEEPINTVL, kProbeEverySeconds);
    set(CURLOPT_USERAGENT, "holdfast-agent");
    set(CURLOPT_HTTPHEADER, headers_);
    set(CURLOPT_ERRORBUFFER, error_.data());
    set(line_ ? CURLOPT_CONNECTTIMEOUT_MS : CURLOPT_TIMEOUT_MS, static_cast<long>(request_.timeout_ms));
    set(CURLOPT_WRITEFUNCTION, &Handle::on_data);
    set(CURLOPT_WRITEDATA, this);
    // Do not resume sessions. In a resumed session, the server shows no certificate, so an expired certificate would be
    // accepted.
    set(CURLOPT_SSL_SESSIONID_CACHE, 0L);
    if (!http_.tls_.ca.empty()) set(CURLOPT_CAINFO, http_.tls_.ca.c_str());
    if (!http_.tls_.certificate.empty()) set(CURLOPT_SSLCERT, http_.tls_.certificate.c_str());
    if (!http_.tls_.key.empty()) set(CURLOPT_SSLKEY, http_.tls_.key.c_str());
    if (request_.method == Request::Method::post) configure_body();
  }

  // Passes the body through a callback that refuses to rewind once a part of the body was read, so that libcurl cannot
  // send a request twice.
  void configure_body() {
    set(CURLOPT_POST, 1L);
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
    set(CURLOPT_READFUNCTION, &Handle::on_read);
    set(CURLOPT_READDATA, this);
    set(CURLOPT_SEEKFUNCTION, &Handle::on_seek);
    set(CURLOPT_SEEKDATA, this);
  }

  static std::size_t on_read(char* to, std::size_t size, std::size_t count, void* self) {
    auto* handle = static_cast<Handle*>(self);
    const std::size_t part = std::min(size * count, handle->request_.body.size() - handle->read_);
    handle->request_.body.copy(to, part, handle->read_);
    handle->read_ += part;
    return part;
  }

  static int on_seek(void* self, curl_off_t offset, int origin) {
    const bool untouched = static_cast<Handle*>(self)->read_ == 0 && offset == 0 && origin == SEEK_SET;
    return untouched ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
  }

  static std::size_t on_data(char* data, std::size_t size, std::size_t count, void* self) {
    auto* handle = static_cast<Handle*>(self);
    handle->response_.body.append(data, size * count);
    if (handle->line_) handle->collect_lines();
    return handle->response_.body.size() <= kLongestAnswer ? size * count : 0;
  }

  // Delivers lines through the loop. A receiver may end the transfer, which libcurl does not allow in its own
  // callbacks.
  void collect_lines() {
    std::string& rest = response_.body;
    std::size_t begin = 0;
    long status = 0;
    ::curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200) return;
    for (std::size_t end; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1)
      lines_.push_back(rest.substr(begin, end - begin));
    rest.erase(0, begin);
    if (lines_.empty() || announced_) return;
    announced_ = true;
    http_.loop_.post([this, alive = std::weak_ptr<int>(alive_)] {
      if (alive.lock()) hand_on_lines(alive);
    });
  }

  void hand_on_lines(const std::weak_ptr<int>& alive) {
    announced_ = false;
    std::vector<std::string> lines;
    lines.swap(lines_);
    const Line line = line_;  // the callback may destroy this object
    for (const std::string& text : lines) {
      if (alive.expired()) return;
      line(text);
    }
  }

  void finish(CURLcode code) {
    if (line_) {
      const std::weak_ptr<int> alive = alive_;
      hand_on_lines(alive);
      if (alive.expired()) return;
    }
    ::curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &response_.status);
    if (response_.status != 0) http_.answered_.insert(server());
    response_.ended = code == CURLE_OK;
    response_.may_have_sent = read_ > 0 || request_.method == Request::Method::get;
    if (code != CURLE_OK) response_.failure = describe(code);
    const Response response = std::move(response_);
    const Done done = std::move(done_);
    done(response);
  }

  std::string server() const { return request_.url.substr(0, request_.url.find('/', request_.url.find("://") + 3)); }

  // Returns a message that is always the same for the same cause. Some messages of libcurl contain times or internals.
  std::string describe(CURLcode code) {
    if (code == CURLE_OPERATION_TIMEDOUT)
      return "nothing arrived within " + std::to_string(request_.timeout_ms) + " ms";
    long error = 0;
    ::curl_easy_getinfo(curl_, CURLINFO_OS_ERRNO, &error);
    if (code == CURLE_COULDNT_CONNECT && error != 0) return std::generic_category().message(static_cast<int>(error));
    if (code == CURLE_SEND_FAIL_REWIND) return "it closed the connection before the answer";
    // If the server expects TLS, it may reset the connection, and its reply may be lost. But if the server has answered
    // before, the protocol is right.
    if (code == CURLE_GOT_NOTHING || (code == CURLE_RECV_ERROR && error == ECONNRESET && response_.status == 0))
      return request_.url.starts_with("https:") || http_.answered_.contains(server())
                 ? "it closed the connection without an answer"
                 : "it closed the connection without an answer; if it uses TLS, write https://";
    return error_[0] != '\0' ? error_.data() : ::curl_easy_strerror(code);
  }

  Http& http_;
  const Request request_;
  const Line line_;
  Done done_;
  CURL* const curl_;
  curl_slist* headers_ = nullptr;
  std::size_t read_ = 0;
  Response response_;
  std::vector<std::string> lines_;
  bool announced_ = false;
  std::array<char, CURL_ERROR_SIZE> error_{};
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

bool is_endpoint(const std::string& url) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> parsed(::curl_url(), &::curl_url_cleanup);
  if (parsed == nullptr) throw std::bad_alloc();
  const auto part = [&](CURLUPart which) {
    char* text = nullptr;
    ::curl_url_get(parsed.get(), which, &text, 0);
    std::string copy = text == nullptr ? "" : text;
    ::curl_free(text);
    return copy;
  };
  if (::curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return false;
  const std::string scheme = part(CURLUPART_SCHEME);
  const std::string path = part(CURLUPART_PATH);
  return (scheme == "http" || scheme == "https") && !part(CURLUPART_PORT).empty() && (path.empty() || path == "/") &&
         part(CURLUPART_USER).empty() && part(CURLUPART_PASSWORD).empty() && part(CURLUPART_QUERY).empty() &&
         part(CURLUPART_FRAGMENT).empty();
}

Http::Http(Loop& loop, Tls tls) : loop_(loop), tls_(std::move(tls)) {}

Http::~Http() {
  for (CURL* handle : idle_) ::curl_easy_cleanup(handle);
}

std::unique_ptr<Transfer> Http::send(Request request, Done done) {
  return std::make_unique<Handle>(*this, std::move(request), Line(), std::move(done));
}

std::unique_ptr<Transfer> Http::stream(Request request, Line line, Done done) {
  return std::make_unique<Handle>(*this, std::move(request), std::move(line), std::move(done));
}

}  // namespace holdfast::etcd
