;;;; Sends every kind of item, and gets it from each of COUNT programs:
;;;;   sbcl --script every-kind.lisp ADDRESS COUNT

(load (merge-pathnames "groupcast-bus.lisp" *load-truename*))

(defparameter *everything*
  (list (groupcast-bus:sym "plus")
        (list (groupcast-bus:sym "odd ) one") (intern "key" :keyword) '())
        -12345678901234567890123
        2.5d0
        (format nil "a \"quoted\" \\ text~%in lines ~C" (code-char 252))
        (coerce #(0 255 10) '(vector (unsigned-byte 8)))
        #\a #\Space #\(
        (list 'quote (groupcast-bus:sym "x"))
        (vector 1 2)
        (list* 1 2 (groupcast-bus:sym "end"))))

(defun same (one other)
  (cond ((and (consp one) (consp other))
         (and (same (car one) (car other)) (same (cdr one) (cdr other))))
        ((and (stringp one) (stringp other)) (string= one other))
        ((and (vectorp one) (vectorp other))
         (and (= (length one) (length other)) (every #'same one other)))
        (t (eql one other))))

(destructuring-bind (address count) (last sb-ext:*posix-argv* 2)
  (let ((bus (groupcast-bus:connect address))
        (count (parse-integer count)))
    (groupcast-bus:accept bus "*" "kinds" :ring t)
    (loop until (= count (length (groupcast-bus:ping bus "*" "kinds"))) do (sleep 0.05))
    (groupcast-bus:send bus "lisp" "kinds" *everything*)
    (loop repeat count
          do (let ((message (groupcast-bus:receive bus)))
               (unless (same *everything* (groupcast-bus:read-item (groupcast-bus:message-data message)))
                 (format *error-output* "from ~A: ~A~%" (groupcast-bus:message-tag message)
                         (groupcast-bus::text (groupcast-bus:message-data message)))
                 (sb-ext:exit :code 1))
               (format t "equal ~A~%" (groupcast-bus:message-tag message))))
    (groupcast-bus:disconnect bus)))
