;;;; A client of groupcast's message bus for SBCL, over a plain socket (docs/bus.md).
;;;; Lists travel as S-expressions, which Lisp's own reader reads.

(require :sb-bsd-sockets)

(defpackage :groupcast-bus
  (:use :cl)
  (:export #:connect #:disconnect #:name #:command #:accept #:ping #:send #:receive
           #:sym #:read-item #:write-item #:bus-error #:closed
           #:message #:message-tag #:message-domains #:message-syntax #:message-data))

;;; Where symbols of messages live: they keep their case, so `list` is none of Lisp's own.
(defpackage :groupcast-symbols (:use))

(in-package :groupcast-bus)

(define-condition bus-error (error)
  ((line :initarg :line :reader bus-error-line))
  (:report (lambda (it out) (format out "the bus: ~A" (bus-error-line it)))))

(define-condition closed (bus-error) ())

(defstruct (bus (:constructor make-bus (stream)))
  stream name
  ;; Deliveries that came before a reply, in their order.
  (events '()))

(defstruct message tag domains syntax data)

;;; The socket

(defun connect (address)
  "A connection to the bus at IP:PORT or unix:PATH."
  (let* ((colon (position #\: address :from-end t))
         (local (and (> (length address) 5) (string= "unix:" address :end2 5)))
         (socket (make-instance (if local 'sb-bsd-sockets:local-socket 'sb-bsd-sockets:inet-socket)
                                :type :stream)))
    (if local
        (sb-bsd-sockets:socket-connect socket (subseq address 5))
        (sb-bsd-sockets:socket-connect
         socket
         (sb-bsd-sockets:make-inet-address (subseq address 0 colon))
         (parse-integer address :start (1+ colon))))
    (let ((bus (make-bus (sb-bsd-sockets:socket-make-stream
                          socket :input t :output t :buffering :full
                          :element-type '(unsigned-byte 8)))))
      (let ((greeting (words (reply bus))))
        (unless (equal "bus" (first greeting))
          (error 'closed :line "this is no bus"))
        (setf (bus-name bus) (third greeting)))
      bus)))

(defun name (bus)
  "The private name of this connection."
  (bus-name bus))

(defun disconnect (bus)
  "Leave, once all that was sent is carried out."
  (say bus "quit")
  (handler-case (loop (reply bus))
    (closed () (close (bus-stream bus)))))

(defun octets (text) (sb-ext:string-to-octets text :external-format :utf-8))
(defun text (octets) (sb-ext:octets-to-string octets :external-format :utf-8))

(defun say (bus line)
  (write-sequence (octets line) (bus-stream bus))
  (write-byte 10 (bus-stream bus))
  (finish-output (bus-stream bus)))

(defun read-octets (bus count)
  (let ((octets (make-array count :element-type '(unsigned-byte 8))))
    (unless (= count (read-sequence octets (bus-stream bus)))
      (error 'closed :line "the connection ended without a word"))
    octets))

(defun read-line-of (bus)
  (let ((line (make-array 80 :element-type '(unsigned-byte 8) :adjustable t :fill-pointer 0)))
    (loop for octet = (read-byte (bus-stream bus) nil nil)
          do (cond ((null octet) (error 'closed :line "the connection ended without a word"))
                   ((= octet 10) (return (text (coerce line '(vector (unsigned-byte 8))))))
                   (t (vector-push-extend octet line))))))

(defun take (bus)
  "Read a line. One of a reply is returned; a delivery is kept, and all else passed over."
  (let ((line (read-line-of bus)))
    (cond ((begins "msg " line)
           (let* ((words (words line))
                  (size (parse-integer (car (last words))))
                  (data (read-octets bus size))
                  (marks (butlast (nthcdr 3 words))))
             (read-octets bus 1)
             (setf (bus-events bus)
                   (append (bus-events bus)
                           (list (make-message
                                  :tag (second words) :domains (third words)
                                  :syntax (or (find-if (lambda (it) (member it '("raw" "cstream") :test #'equal))
                                                       marks)
                                              "sexp")
                                  :data data))))
             nil))
          ((begins "closed " line) (error 'closed :line line))
          ((or (equal line "ok") (null (bus-name bus))
               (some (lambda (it) (begins it line)) '("ok " "error " " ")))
           line)
          (t nil))))

(defun begins (prefix line)
  (let ((size (length prefix)))
    (and (>= (length line) size) (string= prefix line :end2 size))))

(defun reply (bus)
  (loop (let ((line (take bus)))
          (when line (return line)))))

;;; Commands

(defun command (bus line)
  "Say a command of one line, and return the words of its reply."
  (say bus line)
  (answer bus))

(defun answer (bus)
  (let ((line (reply bus)))
    (unless (or (equal line "ok") (begins "ok " line))
      (error 'bus-error :line line))
    (rest (words line))))

(defun accept (bus tag domain &key ring)
  "Take the messages to DOMAIN whose tag matches the regular expression TAG; with RING, DOMAIN has an
order of its own."
  (command bus (format nil "accept ~A ~A~:[~; ring~]" (quoted tag) (quoted domain) ring)))

(defun ping (bus tag domain)
  "The ids of all that such a message would be for."
  (command bus (format nil "ping ~A ~A" (quoted tag) (quoted domain))))

(defun send (bus tag domain item)
  "Send a list, and return when it is accepted."
  (let ((data (octets (write-item item))))
    (say bus (format nil "msg ~A ~A sexp ~D" (quoted tag) (quoted domain) (length data)))
    (write-sequence data (bus-stream bus))
    (write-byte 10 (bus-stream bus))
    (finish-output (bus-stream bus))
    (answer bus)))

(defun receive (bus)
  "The next message. READ-ITEM of its data is its list, unless its syntax is raw."
  (loop until (bus-events bus) do (take bus))
  (pop (bus-events bus)))

;;; Words of a line

(defun quoted (word)
  (with-output-to-string (out)
    (write-char #\" out)
    (loop for letter across word
          do (cond ((find letter "\"\\") (format out "\\~C" letter))
                   ((< (char-code letter) 32) (format out "\\x~2,'0x" (char-code letter)))
                   (t (write-char letter out))))
    (write-char #\" out)))

(defun words (line)
  "The words of a line, without their quotes. Domains stay one word, with their commas."
  (let ((words '()) (word nil) (inside nil) (at 0) (size (length line)))
    (flet ((add (letter)
             (unless word (setf word (make-string-output-stream)))
             (when letter (write-char letter word))))
      (loop while (< at size)
            do (let ((letter (char line at)))
                 (cond ((char= letter #\") (add nil) (setf inside (not inside)))
                       ((and inside (char= letter #\\))
                        (incf at)
                        (let ((escape (char line at)))
                          (add (case escape
                                 (#\n #\Newline) (#\r #\Return) (#\t #\Tab)
                                 (#\x (incf at 2)
                                  (code-char (parse-integer line :start (1- at) :end (1+ at) :radix 16)))
                                 (t escape)))))
                       ((and (char= letter #\Space) (not inside))
                        (when word (push (get-output-stream-string word) words))
                        (setf word nil))
                       (t (add letter)))
                 (incf at)))
      (when word (push (get-output-stream-string word) words)))
    (nreverse words)))

;;; Items

(defun sym (name)
  "The symbol that is written NAME in messages."
  (intern name :groupcast-symbols))

(defun read-bytes (stream character argument)
  "#u8(0 255), which Lisp itself does not know."
  (declare (ignore character argument))
  (unless (eql #\8 (read-char stream t nil t))
    (error 'bus-error :line "what follows #u is no bytes"))
  (coerce (read stream t nil t) '(vector (unsigned-byte 8))))

(defun refuse (stream character argument)
  (declare (ignore stream argument))
  (error 'bus-error :line (format nil "#~C is not read from a message" character)))

(defparameter *message-readtable*
  ;; Nothing of a message may be evaluated, made circular, or depend on this Lisp.
  (let ((table (copy-readtable nil)))
    (setf (readtable-case table) :preserve)
    (loop for letter across ".+-=#*absopcrx" do (set-dispatch-macro-character #\# letter #'refuse table))
    (set-dispatch-macro-character #\# #\u #'read-bytes table)
    table))

(defmacro with-message-syntax (&body body)
  `(with-standard-io-syntax
     (let ((*readtable* *message-readtable*)
           (*package* (find-package :groupcast-symbols))
           (*read-default-float-format* 'double-float)
           (*print-readably* nil)
           (*read-eval* nil))
       ,@body)))

(defun read-item (data)
  "The item that the text or the octets DATA are."
  (with-message-syntax
    (values (read-from-string (if (stringp data) data (text data))))))

(defun write-item (item)
  "ITEM as a text in the canonical form."
  (with-message-syntax
    (with-output-to-string (out) (write-to item out))))

(defun write-to (item out)
  (etypecase item
    (null (write-string "()" out))
    (cons (if (and (member (first item) '(quote function)) (consp (rest item)) (null (cddr item)))
              (progn (write-string (if (eq (first item) 'quote) "'" "#'") out)
                     (write-to (second item) out))
              (write-list item out)))
    (string (write-char #\" out)
            (loop for letter across item
                  do (when (find letter "\"\\") (write-char #\\ out))
                     (write-char letter out))
            (write-char #\" out))
    ((vector (unsigned-byte 8)) (format out "#u8(~{~D~^ ~})" (coerce item 'list)))
    (vector (write-char #\# out) (write-list (coerce item 'list) out))
    (character (if (and (graphic-char-p item) (char/= item #\Space))
                   (format out "#\\~C" item)
                   (format out "#\\~A" (char-name item))))
    ((or symbol number) (prin1 item out))))

(defun write-list (items out)
  (write-char #\( out)
  (loop for rest on items
        do (write-to (car rest) out)
           (cond ((consp (cdr rest)) (write-char #\Space out))
                 ((cdr rest) (write-string " . " out) (write-to (cdr rest) out))))
  (write-char #\) out))
