<?php
// A front controller as PHP's frameworks have it: the path is decoded, slashes around it do not
// count, and `/index.php` before it neither. POST /login, /signin with any method, and the rest.
// Appends what it saw to the file TRIAL_LOG, a JSON object a line.
$path = trim(rawurldecode(explode('?', $_SERVER['REQUEST_URI'], 2)[0]), '/');
if (str_starts_with($path, 'index.php/')) {
    $path = substr($path, strlen('index.php/'));
}
$handler = 'other';
if ($path === 'login' && strtoupper($_SERVER['REQUEST_METHOD']) === 'POST') {
    $handler = 'login';
}
if ($path === 'signin') {
    $handler = 'signin';
}
$seen = ['trial' => $_SERVER['HTTP_X_TRIAL'] ?? '', 'id' => $_SERVER['HTTP_X_REQUEST_ID'] ?? '',
         'handler' => $handler, 'tenant' => $_GET['tenant_id'] ?? null];
file_put_contents(getenv('TRIAL_LOG'), json_encode($seen, JSON_INVALID_UTF8_SUBSTITUTE) . "\n",
                  FILE_APPEND);
header('Content-Type: text/plain');
echo "ok\n";
